// tensor/program/fusion/block_sizes.h: how large the blocks of loops are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::thresholds::fusion {

// Bytes of the values between the ops of a loop, for one block: with what is read and written they
// fit the first cache. Not measured.
inline constexpr size_t kBlockBytes = 32768;
// The most elements of a block. Not measured.
inline constexpr int64_t kBlockElements = 2048;

}  // namespace moonlet::thresholds::fusion
