// cuda/kernels/common/divide.cuh: division by a number that the host knows, as a product and a
// shift: a GPU divides in a long function.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace moonlet::cuda {

// The numbers that a Divider divides are below this.
inline constexpr int64_t kDividerLimit = int64_t{1} << 31;

// By the method of Granlund and Montgomery (1994): for a number n below 2^31 and 2^(shift - 1) <
// divisor <= 2^shift, n / divisor is (n + the upper half of n * magic) >> shift.
struct Divider {
  uint32_t divisor = 1, magic = 1, shift = 0;

  Divider() = default;
  // A divisor from 1 to kDividerLimit - 1.
  explicit Divider(int64_t by) : divisor(static_cast<uint32_t>(by)) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    const uint64_t one = 1;
    magic = static_cast<uint32_t>((one << 32) * ((one << shift) - divisor) / divisor + 1);
  }

  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return (n + __umulhi(n, magic)) >> shift;
  }
};

}  // namespace moonlet::cuda
