// cuda/kernels/common/packs.cuh: elements that a thread moves at once, up to 16 bytes of them, and
// how they are read as the type that a kernel computes in.
#pragma once

#include <cstring>

#include "cuda/kernels/common/elements.cuh"

namespace moonlet::cuda {

// kBytes of memory in registers: 16, or a part of that which is a power of two.
template <int kBytes>
struct Words {
  uint32_t v[kBytes < 4 ? 1 : kBytes / 4];
};

// One load of kBytes that are aligned to as many.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> load_words(const char* p) {
  Words<kBytes> out{};
#ifdef MOONLET_CUDA_EMULATED
  std::memcpy(out.v, __builtin_assume_aligned(p, kBytes), kBytes);
#else
  if constexpr (kBytes == 16) {
    const uint4 w = *reinterpret_cast<const uint4*>(p);
    out.v[0] = w.x, out.v[1] = w.y, out.v[2] = w.z, out.v[3] = w.w;
  } else if constexpr (kBytes == 8) {
    const uint2 w = *reinterpret_cast<const uint2*>(p);
    out.v[0] = w.x, out.v[1] = w.y;
  } else if constexpr (kBytes == 4) {
    out.v[0] = *reinterpret_cast<const uint32_t*>(p);
  } else if constexpr (kBytes == 2) {
    out.v[0] = *reinterpret_cast<const uint16_t*>(p);
  } else {
    out.v[0] = *reinterpret_cast<const uint8_t*>(p);
  }
#endif
  return out;
}

template <int kBytes>
__device__ __forceinline__ void store_words(char* p, const Words<kBytes>& w) {
#ifdef MOONLET_CUDA_EMULATED
  std::memcpy(__builtin_assume_aligned(p, kBytes), w.v, kBytes);
#else
  if constexpr (kBytes == 16)
    *reinterpret_cast<uint4*>(p) = make_uint4(w.v[0], w.v[1], w.v[2], w.v[3]);
  else if constexpr (kBytes == 8)
    *reinterpret_cast<uint2*>(p) = make_uint2(w.v[0], w.v[1]);
  else if constexpr (kBytes == 4)
    *reinterpret_cast<uint32_t*>(p) = w.v[0];
  else if constexpr (kBytes == 2)
    *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(w.v[0]);
  else
    *reinterpret_cast<uint8_t*>(p) = static_cast<uint8_t>(w.v[0]);
#endif
}

// The bits of element k of some that have kElement bytes each.
template <int kElement, int kBytes>
__device__ __forceinline__ uint64_t bits_at(const Words<kBytes>& w, int k) {
  if constexpr (kElement == 8)
    return w.v[2 * k] | static_cast<uint64_t>(w.v[2 * k + 1]) << 32;
  else if constexpr (kElement == 4)
    return w.v[k];
  else if constexpr (kElement == 2)
    return w.v[k / 2] >> 16 * (k % 2) & 0xffffu;
  else
    return w.v[k / 4] >> 8 * (k % 4) & 0xffu;
}

// Sets element k, whose bits are 0.
template <int kElement, int kBytes>
__device__ __forceinline__ void set_bits(Words<kBytes>& w, int k, uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  if constexpr (kElement == 8) {
    w.v[2 * k] = low;
    w.v[2 * k + 1] = static_cast<uint32_t>(bits >> 32);
  } else if constexpr (kElement == 4) {
    w.v[k] = low;
  } else if constexpr (kElement == 2) {
    w.v[k / 2] |= low << 16 * (k % 2);
  } else {
    w.v[k / 4] |= low << 8 * (k % 4);
  }
}

// Where a kernel is not compiled for each dtype (floats.cuh), the elements of one width that
// compute in the same type are told apart while it runs: half as many kernels are to be compiled.
enum class Code : uint8_t { kPlain, kBFloat16, kSigned, kTruth };

inline Code code_of(DType t) {
  switch (t) {
    case DType::Bool: return Code::kTruth;
    case DType::BFloat16: return Code::kBFloat16;
    case DType::Int8: return Code::kSigned;
    default: return Code::kPlain;
  }
}

// An element's bits as a C.
template <class C, int kElement>
__device__ __forceinline__ C decoded(uint64_t bits, Code code) {
  if constexpr (kElement == 1) {
    if constexpr (std::is_same_v<C, int64_t>)
      if (code == Code::kSigned) return static_cast<int8_t>(bits);
    return static_cast<C>(static_cast<int>(bits));
  } else if constexpr (kElement == 2) {
    const auto low = static_cast<uint16_t>(bits);
    half plain;
    bfloat16 brain;
    plain.bits = brain.bits = low;
    return code == Code::kBFloat16 ? widened(brain) : widened(plain);
  } else if constexpr (std::is_same_v<C, float>) {
    return moonlet::detail::bits_float(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<C, double>) {
    return __longlong_as_double(static_cast<long long>(bits));
  } else if constexpr (kElement == 4) {
    return static_cast<int32_t>(bits);
  } else {
    return static_cast<int64_t>(bits);
  }
}

template <class C, int kElement>
__device__ __forceinline__ uint64_t encoded(C v, Code code) {
  if constexpr (kElement == 1) {
    if (code == Code::kTruth) return v != C(0) ? 1 : 0;
    return static_cast<uint8_t>(static_cast<int64_t>(v));
  } else if constexpr (kElement == 2) {
    half plain;
    bfloat16 brain;
    narrow(v, plain);
    narrow(v, brain);
    return code == Code::kBFloat16 ? brain.bits : plain.bits;
  } else if constexpr (std::is_same_v<C, float>) {
    return moonlet::detail::float_bits(v);
  } else if constexpr (std::is_same_v<C, double>) {
    return static_cast<uint64_t>(__double_as_longlong(v));
  } else if constexpr (kElement == 4) {
    return static_cast<uint32_t>(v);
  } else {
    return static_cast<uint64_t>(v);
  }
}

// Whether packs of so many bytes can begin at p.
inline bool aligned_to(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

// Elements in packs, and whether these lie at multiples of 16 bytes; otherwise their elements are
// read one by one, in the same order, so that sums do not depend on where a tensor lies.
struct PackSource {
  const char* data;
  Code code;
  bool aligned;
};

template <int kElement>
__device__ __forceinline__ Words<16> load_pack(const PackSource& x, int64_t at, int64_t count) {
  constexpr int kCount = 16 / kElement;
  const char* p = x.data + at * kElement;
  if (x.aligned && count >= kCount) return load_words<16>(p);
  Words<16> out{};
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k)
    if (k < count)
      set_bits<kElement>(out, k, bits_at<kElement>(load_words<kElement>(p + k * kElement), 0));
  return out;
}

template <int kElement>
__device__ __forceinline__ void store_pack(char* data, bool aligned, int64_t at, int64_t count,
                                           const Words<16>& pack) {
  constexpr int kCount = 16 / kElement;
  char* p = data + at * kElement;
  if (aligned && count >= kCount) return store_words(p, pack);
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) {
    if (k >= count) continue;
    Words<kElement> one{};
    set_bits<kElement>(one, 0, bits_at<kElement>(pack, k));
    store_words(p + k * kElement, one);
  }
}

// Calls f.template operator()<C, kElement>() for a floating dtype: the type that it computes in,
// and its width.
template <class F>
void visit_floats(DType t, F&& f) {
  if (t == DType::Float64) return f.template operator()<double, 8>();
  if (t == DType::Float32) return f.template operator()<float, 4>();
  return f.template operator()<float, 2>();
}

}  // namespace moonlet::cuda
