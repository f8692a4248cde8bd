// tensor/cpu/random/random.h: random bits for the fills, many Philox blocks at a time.
#pragma once

#include "tensor/functors/random_transforms.h"

namespace moonlet::cpu::bits {

inline constexpr int kBatch = 16;

// Number k of block i is v[k][i].
struct Batch {
  alignas(64) uint32_t v[4][kBatch];
};

// Blocks [first, first + kBatch) of the sequence.
void draw(const Philox& rng, uint64_t first, Batch& out);

// The masks of dropout of the elements whose numbers are those of these blocks, in their order: 0
// where one is dropped, else `kept`.
inline constexpr int kMasks = 4 * kBatch;
void draw_masks(const Philox& rng, uint64_t first, const draws::Under& dropped, float kept,
                float* out);
void draw_masks(const Philox& rng, uint64_t first, const draws::Under& dropped, double kept,
                double* out);

}  // namespace moonlet::cpu::bits
