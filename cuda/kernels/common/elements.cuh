// cuda/kernels/common/elements.cuh: reading and writing elements of any dtype as the type a kernel
// computes in, and the rules of conversion, which are those of the CPU.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/kernels/complex.h"
#include "cuda/runtime/launch.h"
#include "tensor/core/dtype.h"
#include "tensor/core/scalar.h"

// A device function of which one copy is enough: inlining every dtype's case into every kernel
// would multiply the time nvcc takes.
#ifdef MOONLET_CUDA_EMULATED
#define MOONLET_OUTLINE inline
#else
#define MOONLET_OUTLINE __device__ __noinline__
#endif

namespace moonlet::cuda {

// Truncates; saturates beyond the range; NaN becomes 0.
template <class F>
MOONLET_HD int64_t saturate(F v) {
  if (v != v) return 0;
  if (v >= F(9223372036854775808.0)) return INT64_MAX;
  if (v <= F(-9223372036854775808.0)) return INT64_MIN;
  return static_cast<int64_t>(v);
}

// The same for uint64; negative numbers wrap.
template <class F>
MOONLET_HD uint64_t saturate_unsigned(F v) {
  if (!(v >= F(0))) return static_cast<uint64_t>(saturate(v));
  return v >= F(18446744073709551616.0) ? UINT64_MAX : static_cast<uint64_t>(v);
}

// Floats that are computed in float32; the 16-bit ones by the device's own instructions.
template <class T>
requires is_reduced_floating_v<T> MOONLET_HD float widened(T v) { return static_cast<float>(v); }
MOONLET_HD float widened(half v) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(v.bits));
  return out;
#else
  return static_cast<float>(v);
#endif
}
template <class T>
requires is_reduced_floating_v<T> MOONLET_HD void narrow(float v, T& out) { out = T(v); }
MOONLET_HD void narrow(float v, half& out) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
#else
  out = half(v);
#endif
}
MOONLET_HD void narrow(float v, bfloat16& out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
#else
  out = bfloat16(v);
#endif
}

// v as To; floats become integers by way of int64, complex values lose their imaginary part.
template <class To, class From>
MOONLET_HD To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (is_reduced_floating_v<From>) {
    return convert<To>(widened(v));
  } else if constexpr (is_reduced_floating_v<To>) {
    To out;
    narrow(convert<float>(v), out);
    return out;
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (is_device_complex<To>) {
    using Part = typename To::Part;
    if constexpr (is_device_complex<From>)
      return To(static_cast<Part>(v.re), static_cast<Part>(v.im));
    else
      return To(static_cast<Part>(v), Part(0));
  } else if constexpr (is_device_complex<From>) {
    return convert<To>(v.re);
  } else if constexpr (std::is_same_v<To, uint64_t> && std::is_floating_point_v<From>) {
    return saturate_unsigned(v);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return static_cast<To>(saturate(v));
  } else {
    return static_cast<To>(v);
  }
}

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
