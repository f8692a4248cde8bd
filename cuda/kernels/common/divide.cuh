// cuda/kernels/common/divide.cuh: division by a number that the host knows, as a product and a
// shift: a GPU divides in a long function. And the type that kernels count in.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

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

// What a kernel that counts in I divides by: int32_t where all of its numbers are below
// kDividerLimit, else int64_t, whose arithmetic takes several instructions each.
template <class I>
struct Divisor {
  int64_t divisor = 1;
  Divisor() = default;
  explicit Divisor(int64_t by) : divisor(by) {}
  // Replaces n by what is left of it, and returns the quotient.
  __device__ __forceinline__ int64_t split(int64_t& n) const {
    const int64_t quotient = n / divisor;
    n -= quotient * divisor;
    return quotient;
  }
};
template <>
struct Divisor<int32_t> {
  Divider by;
  Divisor() = default;
  explicit Divisor(int64_t n) : by(n) {}
  __device__ __forceinline__ int32_t split(int32_t& n) const {
    const uint32_t quotient = by.quotient(static_cast<uint32_t>(n));
    n -= static_cast<int32_t>(quotient * by.divisor);
    return static_cast<int32_t>(quotient);
  }
};

// `for (MOONLET_EACH_OF(I, i, count))`: the numbers below count, as I, shared among the grid's
// threads.
#define MOONLET_EACH_OF(I, i, count)                                                           \
  I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x); \
  static_cast<std::make_unsigned_t<I>>(i) < static_cast<std::make_unsigned_t<I>>(count);       \
  i = static_cast<I>(static_cast<std::make_unsigned_t<I>>(i) +                                 \
                     static_cast<std::make_unsigned_t<I>>(gridDim.x) * blockDim.x)

}  // namespace moonlet::cuda
