// tensor/program/fusion/block_sizes.h: how large the blocks of loops are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::thresholds::fusion {

// Bytes of the values between the ops of a loop, for one block: with what is read and written they
// fit the first cache. Measured: 12 KiB are slower for Adam's formula, whose blocks are then short,
// and 96 KiB for a tanh of ten thousand elements; between them it hardly matters.
inline constexpr size_t kBlockBytes = 24576;
// The most elements of a block. Measured: from 1024 to 4096 it hardly matters.
inline constexpr int64_t kBlockElements = 1024;

// Bytes that a thread's rows of a strip read and write: they fit the second cache.
inline constexpr int64_t kStripBytes = 1 << 19;
// The most threads that strips are made larger for. Not measured.
inline constexpr int kStripThreads = 16;

}  // namespace moonlet::thresholds::fusion
