// tensor/functors/philox.h: Philox 4x32-10, the counter-based random generator of Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). Shared by host and device
// code.
#pragma once

#include "tensor/core/half.h"

namespace moonlet {

// Four 32-bit random numbers.
struct PhiloxBlock {
  uint32_t v[4];
};

// The numbers of one fill: block i of the sequence `seed` starts at counter offset + i, so any
// element can be computed alone, on any thread or device.
struct Philox {
  uint64_t seed = 0;
  uint64_t offset = 0;

  MOONLET_HD PhiloxBlock block(uint64_t i) const { return block(i, 0); }
  // Block `step` of the many that start at the same counter: for draws of which nobody knows
  // beforehand how many blocks they take.
  MOONLET_HD PhiloxBlock block(uint64_t i, uint64_t step) const {
    const uint64_t counter = offset + i;
    uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
    uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
      const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

}  // namespace moonlet
