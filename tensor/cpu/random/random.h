// tensor/cpu/random/random.h: random bits for the fills, many Philox blocks at a time.
#pragma once

#include "tensor/functors/philox.h"

namespace moonlet::cpu::bits {

inline constexpr int kBatch = 16;

// Number k of block i is v[k][i].
struct Batch {
  alignas(64) uint32_t v[4][kBatch];
};

// Blocks [first, first + kBatch) of the sequence.
void draw(const Philox& rng, uint64_t first, Batch& out);

}  // namespace moonlet::cpu::bits
