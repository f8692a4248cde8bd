// cuda/kernels/common/elements.cuh: reading and writing elements of any dtype as the type a kernel
// computes in.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/kernels/complex.h"
#include "cuda/runtime/launch.h"
#include "tensor/core/dtype.h"
#include "tensor/core/scalar.h"
//
#include "cuda/kernels/common/conversions.cuh"

// A device function of which one copy is enough: inlining every dtype's case into every kernel
// would multiply the time nvcc takes.
#ifdef MOONLET_CUDA_EMULATED
#define MOONLET_OUTLINE inline
#else
#define MOONLET_OUTLINE __device__ __noinline__
#endif

namespace moonlet::cuda {

template <class C>
MOONLET_OUTLINE C load_other(const char* p, DType t) {
  switch (t) {
#define MOONLET_LOAD(D, NAME, CODE, TYPE, ...) \
  case DType::D: return convert<C>(*reinterpret_cast<const device_t<TYPE>*>(p));
    MOONLET_DTYPES(MOONLET_LOAD)
#undef MOONLET_LOAD
  }
  return C(0);
}

template <class C>
MOONLET_OUTLINE void store_other(char* p, DType t, C v) {
  switch (t) {
#define MOONLET_STORE(D, NAME, CODE, TYPE, ...) \
  case DType::D: *reinterpret_cast<device_t<TYPE>*>(p) = convert<device_t<TYPE>>(v); return;
    MOONLET_DTYPES(MOONLET_STORE)
#undef MOONLET_STORE
  }
}

template <class C>
struct DTypeOnDevice {
  static constexpr DType value = dtype_of<C>;
};
template <class T>
struct DTypeOnDevice<Complex<T>> {
  static constexpr DType value = dtype_of<std::complex<T>>;
};

// The element at p, of dtype t, as C.
template <class C>
__device__ __forceinline__ C load(const char* p, DType t) {
  if (t == DTypeOnDevice<C>::value) return *reinterpret_cast<const C*>(p);
  if constexpr (std::is_same_v<C, float>) {
    if (t == DType::BFloat16) return widened(*reinterpret_cast<const bfloat16*>(p));
    if (t == DType::Float16) return widened(*reinterpret_cast<const half*>(p));
  }
  return load_other<C>(p, t);
}
template <class C>
__device__ __forceinline__ void store(char* p, DType t, C v) {
  if (t == DTypeOnDevice<C>::value)
    *reinterpret_cast<C*>(p) = v;
  else
    store_other<C>(p, t, v);
}

__device__ __forceinline__ int bytes_of(DType t) {
  switch (t) {
#define MOONLET_BYTES(D, NAME, CODE, TYPE, ...) \
  case DType::D: return sizeof(TYPE);
    MOONLET_DTYPES(MOONLET_BYTES)
#undef MOONLET_BYTES
  }
  return 0;
}

__device__ __forceinline__ Kind kind_on_device(DType t) {
  switch (t) {
#define MOONLET_KIND(D, NAME, CODE, TYPE, KIND, ...) \
  case DType::D: return Kind::KIND;
    MOONLET_DTYPES(MOONLET_KIND)
#undef MOONLET_KIND
  }
  return Kind::Bool;
}

// A tensor's elements in a kernel: where they start and what they are.
struct Array {
  char* data;
  DType dtype;
  template <class C>
  __device__ C get(int64_t i) const {
    return load<C>(data + i * bytes_of(dtype), dtype);
  }
  template <class C>
  __device__ void set(int64_t i, C v) const {
    store<C>(data + i * bytes_of(dtype), dtype, v);
  }
};

// An optional tensor's elements.
struct OptionalArray {
  Array array;
  bool given;
  template <class C>
  __device__ C get(int64_t i, C otherwise) const {
    return given ? array.get<C>(i) : otherwise;
  }
};

// 16 bytes that a thread moves at once: what visit_bytes gives kernels for the widest elements.
struct alignas(16) Bytes16 {
  uint64_t low, high;
};

// An array in shared memory, of any type: its constructors are not run.
template <class T, int kCount>
struct alignas(16) SharedArray {
  char bytes[kCount * sizeof(T)];
  __device__ T* get() { return reinterpret_cast<T*>(bytes); }
};

// A number as a kernel's argument of type C.
template <class C>
C scalar_as(const Scalar& s) {
  if constexpr (is_device_complex<C>) {
    const complex128 v = s.to_complex();
    using Part = typename C::Part;
    return C(static_cast<Part>(v.real()), static_cast<Part>(v.imag()));
  } else {
    return s.to<C>();
  }
}

// Runs f.template operator()<C>() with the type on the device that values of dtype t are computed
// in.
template <DTypeSet Set = dtypes::all, class F>
void visit_device_compute(DType t, F&& f) {
  visit_compute<Set>(t, [&]<class C>() { f.template operator()<device_t<C>>(); });
}

}  // namespace moonlet::cuda
