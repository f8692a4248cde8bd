// cuda/kernels/common/typed.cuh: elements of a dtype that the compiler knows, one by one and in
// packs: kernels that read several tensors of one dtype pay for no choice among dtypes.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "cuda/kernels/common/divide.cuh"
#include "cuda/kernels/common/floats.cuh"
#include "tensor/core/tensor.h"

namespace moonlet::cuda {

// The type on the device that elements of T, of any dtype, are computed in.
template <class T>
using computed_t = std::conditional_t<
    std::is_integral_v<T>, int64_t,
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>>;

// Calls f.template operator()<T>() with the type of elements of dtype t on the device.
template <DTypeSet Set = dtypes::all, class F>
auto visit_device(DType t, F&& f) {
  return visit<Set>(t, [&]<class T>() { return f.template operator()<device_t<T>>(); });
}

// What Array (elements.cuh) is for a dtype that is known when the kernel runs.
template <class T>
struct Typed {
  T* data;
  template <class C>
  __device__ __forceinline__ C get(int64_t i) const {
    return convert<C>(data[i]);
  }
  template <class C>
  __device__ __forceinline__ void set(int64_t i, C v) const {
    data[i] = convert<T>(v);
  }
};
template <class T>
Typed<T> typed(const Tensor& x) {
  return {reinterpret_cast<T*>(x.raw())};
}

// Whether kernels may count so many in 32 bits.
inline bool counts_are_narrow(std::initializer_list<int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n < kDividerLimit; });
}

// Elements of 16 bytes.
template <class T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

// kCount floats: one, or kPackOf<T> at a multiple of 16 bytes.
template <int kCount, class T>
__device__ __forceinline__ void load_floats(const T* p, Computed<T>* out) {
  if constexpr (kCount == 1) {
    out[0] = convert<Computed<T>>(*p);
  } else {
    static_assert(kCount == kPackOf<T>);
    const Floats<T> pack = unpacked<T>(load_words<16>(reinterpret_cast<const char*>(p)));
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) out[k] = pack.v[k];
  }
}
template <int kCount, class T>
__device__ __forceinline__ void store_floats(T* p, const Computed<T>* v) {
  if constexpr (kCount == 1) {
    *p = convert<T>(v[0]);
  } else {
    static_assert(kCount == kPackOf<T>);
    Floats<T> pack;
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) pack.v[k] = v[k];
    store_words(reinterpret_cast<char*>(p), packed<T>(pack));
  }
}

// The same of Typed or Array: element `at` and those after it.
template <int kCount, class C, class Source>
__device__ __forceinline__ void load_at(const Source& x, int64_t at, C* out) {
  if constexpr (kCount == 1)
    out[0] = x.template get<C>(at);
  else
    load_floats<kCount>(x.data + at, out);
}
template <int kCount, class C, class Source>
__device__ __forceinline__ void store_at(const Source& y, int64_t at, const C* v) {
  if constexpr (kCount == 1)
    y.template set<C>(at, v[0]);
  else
    store_floats<kCount>(y.data + at, v);
}

// Elements as they are: one, or kPackOf<T> at a multiple of 16 bytes.
template <int kCount, class T>
__device__ __forceinline__ void store_elements(T* p, const T* held) {
  if constexpr (kCount == 1) {
    *p = held[0];
  } else {
    static_assert(kCount == kPackOf<T>);
    Words<16> words{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) set_bits<static_cast<int>(sizeof(T))>(words, k, held[k]);
    store_words(reinterpret_cast<char*>(p), words);
  }
}

}  // namespace moonlet::cuda
