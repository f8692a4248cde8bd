// cuda/kernels/common/mma.cuh: products of tiles in shared memory, whose result the threads of a
// warp hold in registers: by tensor cores (16-bit floats, TF32), else by FMA, all in one layout.
#pragma once

#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/team.cuh"
#ifdef MOONLET_CUDA_EMULATED
#include "cuda/emulated/include/mma.h"
#endif

// Before a loop of which so many turns are done at once: more would want too many registers.
#ifdef MOONLET_CUDA_EMULATED
#define MOONLET_UNROLL_BY(count)
#else
#define MOONLET_PRAGMA(text) _Pragma(#text)
#define MOONLET_UNROLL_BY(count) MOONLET_PRAGMA(unroll count)
#endif

namespace moonlet::cuda {

// The instructions --------------------------------------------------------------------------------

// c (16, 8) += a (16, 16) b (16, 8) by a warp. Lane l holds of c the rows l / 4 and l / 4 + 8 and
// the columns 2 (l % 4) and the next; the layouts of a and b are those of PTX's m16n8k16.
__device__ __forceinline__ void mma_16(half, float (&c)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2]) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::mma_16<half>(c, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
__device__ __forceinline__ void mma_16(bfloat16, float (&c)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2]) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::mma_16<bfloat16>(c, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// c (16, 8) += a (16, 8) b (8, 8) of float32 that was rounded to TF32.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::mma_tf32(c, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// The nearest TF32, of two equally near the one farther from 0.
__device__ __forceinline__ float to_tf32(float v) {
#ifdef MOONLET_CUDA_EMULATED
  const uint32_t bits = moonlet::detail::float_bits(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;
  return moonlet::detail::bits_float((bits + 0x1000u) & 0xffffe000u);
#else
  uint32_t out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(v));
  return __uint_as_float(out);
#endif
}

// Two numbers as 16-bit floats in a word, the first one lower.
__device__ __forceinline__ uint32_t narrowed_pair(half, float low, float high) {
#ifdef MOONLET_CUDA_EMULATED
  half a, b;
  narrow(low, a);
  narrow(high, b);
  return a.bits | static_cast<uint32_t>(b.bits) << 16;
#else
  uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
#endif
}
__device__ __forceinline__ uint32_t narrowed_pair(bfloat16, float low, float high) {
#ifdef MOONLET_CUDA_EMULATED
  bfloat16 a, b;
  narrow(low, a);
  narrow(high, b);
  return a.bits | static_cast<uint32_t>(b.bits) << 16;
#else
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
#endif
}

// Four (8, 8) matrices of 16-bit elements in shared memory; lane 8 m + i gives the start of row i
// of matrix m, a multiple of 16 bytes. Lane l gets of each row l / 4, columns 2 (l % 4) and the
// next; transposed, of column l / 4 the rows with these numbers.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const void* row) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::load_matrices(out, row, kTransposed);
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
#endif
}

// Tiles -------------------------------------------------------------------------------------------

// The part that a thread holds of a warp's 16 rows and kCols columns.
template <class C, int kCols>
struct Part {
  C v[kCols / 8][4];

  __device__ __forceinline__ void clear() {
    MOONLET_UNROLL
    for (int n = 0; n < kCols / 8; ++n) MOONLET_UNROLL
    for (int i = 0; i < 4; ++i) v[n][i] = C(0);
  }
  // Calls f(value, upper, column): `upper` is 1 for the second of the thread's two rows.
  template <class F>
  __device__ __forceinline__ void each(const F& f) {
    const int pair = 2 * (threadIdx.x % 4);
    MOONLET_UNROLL
    for (int n = 0; n < kCols / 8; ++n) MOONLET_UNROLL
    for (int i = 0; i < 4; ++i) f(v[n][i], i / 2, n * 8 + pair + i % 2);
  }
};

// The first of the two rows, 8 apart, that a thread holds of its warp's 16.
__device__ __forceinline__ int row_in_warp() { return threadIdx.x % kWarp / 4; }

// The ways of multiplying. `kStep`: depths are multiples of it. `kAlong` says that the columns of b
// are rows in memory: b (columns, depth), else b (depth, columns). Rows begin at multiples of 16
// bytes. Only the first `cols` columns are computed, rounded up to a multiple of 16. kTurns steps
// are done at once. Units with kHolds also multiply what a product left in registers, as it lies
// there, by b (depth, columns).

// 16-bit floats.
template <class T>
struct HalfUnit {
  using Element = T;
  using Sum = float;
  static constexpr int kStep = 16;
  static constexpr bool kHolds = true;
  __device__ static T stored(float v) {
    T out;
    narrow(v, out);
    return out;
  }

  template <bool kAlong, int kTurns = 1, int kCols>
  __device__ static __forceinline__ void multiply(Part<float, kCols>& c, const T* a, int a_stride,
                                                  const T* b, int b_stride, int depth, int cols) {
    const int lane = threadIdx.x % kWarp, inner = lane % 8, odd = lane / 8 % 2, last = lane / 16;
    const T* of_a = a + (lane % 16) * a_stride + last * 8;
    const T* of_b = kAlong ? b + (inner + last * 8) * b_stride + odd * 8
                           : b + (inner + odd * 8) * b_stride + last * 8;
    MOONLET_UNROLL_BY(kTurns)
    for (int k = 0; k < depth; k += kStep) {
      uint32_t left[4];
      load_matrices<false>(left, of_a + k);
      MOONLET_UNROLL
      for (int n = 0; n < kCols; n += 16) {
        if (n >= cols) continue;
        uint32_t right[4];
        load_matrices<!kAlong>(right, of_b + (kAlong ? n * b_stride + k : k * b_stride + n));
        mma_16(T(), c.v[n / 8], left, {right[0], right[1]});
        mma_16(T(), c.v[n / 8 + 1], left, {right[2], right[3]});
      }
    }
  }

  template <int kDepth, int kCols>
  __device__ static __forceinline__ void multiply_held(Part<float, kCols>& c,
                                                       const Part<float, kDepth>& a, const T* b,
                                                       int b_stride) {
    const int lane = threadIdx.x % kWarp;
    const T* of_b = b + (lane % 16) * b_stride + lane / 16 * 8;
    MOONLET_UNROLL
    for (int k = 0; k < kDepth; k += kStep) {
      const auto &low = a.v[k / 8], &high = a.v[k / 8 + 1];
      const uint32_t left[4] = {
          narrowed_pair(T(), low[0], low[1]), narrowed_pair(T(), low[2], low[3]),
          narrowed_pair(T(), high[0], high[1]), narrowed_pair(T(), high[2], high[3])};
      MOONLET_UNROLL
      for (int n = 0; n < kCols; n += 16) {
        uint32_t right[4];
        load_matrices<true>(right, of_b + k * b_stride + n);
        mma_16(T(), c.v[n / 8], left, {right[0], right[1]});
        mma_16(T(), c.v[n / 8 + 1], left, {right[2], right[3]});
      }
    }
  }
};

// float32 whose factors are rounded to TF32.
struct Tf32Unit {
  using Element = float;
  using Sum = float;
  static constexpr int kStep = 8;
  static constexpr bool kHolds = true;
  __device__ static float stored(float v) { return to_tf32(v); }

  template <bool kAlong, int kTurns = 1, int kCols>
  __device__ static __forceinline__ void multiply(Part<float, kCols>& c, const float* a,
                                                  int a_stride, const float* b, int b_stride,
                                                  int depth, int cols) {
    const int lane = threadIdx.x % kWarp, group = lane / 4, position = lane % 4;
    const auto bits = [](const float* p) { return moonlet::detail::float_bits(*p); };
    const float* of_a = a + group * a_stride + position;
    const float* of_b = kAlong ? b + group * b_stride + position : b + position * b_stride + group;
    MOONLET_UNROLL_BY(kTurns)
    for (int k = 0; k < depth; k += kStep) {
      const uint32_t left[4] = {bits(of_a + k), bits(of_a + 8 * a_stride + k), bits(of_a + k + 4),
                                bits(of_a + 8 * a_stride + k + 4)};
      MOONLET_UNROLL
      for (int n = 0; n < kCols; n += 8) {
        if (n >= cols) continue;
        const float* at = of_b + (kAlong ? n * b_stride + k : k * b_stride + n);
        mma_tf32(c.v[n / 8], left, {bits(at), bits(at + (kAlong ? 4 : 4 * b_stride))});
      }
    }
  }

  // A thread holds columns 2 p and 2 p + 1 where the instruction wants p and p + 4 of the depth: it
  // gets b's rows in that order, too.
  template <int kDepth, int kCols>
  __device__ static __forceinline__ void multiply_held(Part<float, kCols>& c,
                                                       const Part<float, kDepth>& a, const float* b,
                                                       int b_stride) {
    const int lane = threadIdx.x % kWarp;
    const float* of_b = b + 2 * (lane % 4) * b_stride + lane / 4;
    const auto bits = [](float v) { return moonlet::detail::float_bits(v); };
    MOONLET_UNROLL
    for (int k = 0; k < kDepth; k += kStep) {
      const auto& held = a.v[k / 8];
      const uint32_t left[4] = {bits(to_tf32(held[0])), bits(to_tf32(held[2])),
                                bits(to_tf32(held[1])), bits(to_tf32(held[3]))};
      MOONLET_UNROLL
      for (int n = 0; n < kCols; n += 8) {
        const float* at = of_b + k * b_stride + n;
        mma_tf32(c.v[n / 8], left, {bits(at[0]), bits(at[b_stride])});
      }
    }
  }
};

// 16 bytes of C in shared memory.
template <class C>
struct alignas(16) SharedPack {
  static constexpr int kCount = 16 / sizeof(C);
  C v[kCount];
};
template <class C>
struct alignas(2 * sizeof(C)) SharedPair {
  C x, y;
};

// float32 and float64 without tensor cores.
template <class C>
struct PlainUnit {
  using Element = C;
  using Sum = C;
  using Pack = SharedPack<C>;
  static constexpr int kStep = Pack::kCount;
  static constexpr bool kHolds = false;
  __device__ static C stored(C v) { return v; }

  template <bool kAlong, int kTurns = 1, int kCols>
  __device__ static __forceinline__ void multiply(Part<C, kCols>& c, const C* a, int a_stride,
                                                  const C* b, int b_stride, int depth, int cols) {
    const int lane = threadIdx.x % kWarp, group = lane / 4, pair = 2 * (lane % 4);
    const auto pack = [](const C* p) { return *reinterpret_cast<const Pack*>(p); };
    MOONLET_UNROLL_BY(kTurns)
    for (int k = 0; k < depth; k += kStep) {
      const Pack low = pack(a + group * a_stride + k), high = pack(a + (group + 8) * a_stride + k);
      MOONLET_UNROLL
      for (int n = 0; n < kCols / 8; ++n) {
        if (n * 8 >= cols) continue;
        Pack x, y;
        if constexpr (kAlong) {
          x = pack(b + (n * 8 + pair) * b_stride + k);
          y = pack(b + (n * 8 + pair + 1) * b_stride + k);
        } else {
          MOONLET_UNROLL
          for (int j = 0; j < kStep; ++j) {
            const auto two =
                *reinterpret_cast<const SharedPair<C>*>(b + (k + j) * b_stride + n * 8 + pair);
            x.v[j] = two.x, y.v[j] = two.y;
          }
        }
        MOONLET_UNROLL
        for (int j = 0; j < kStep; ++j) {
          c.v[n][0] += low.v[j] * x.v[j];
          c.v[n][1] += low.v[j] * y.v[j];
          c.v[n][2] += high.v[j] * x.v[j];
          c.v[n][3] += high.v[j] * y.v[j];
        }
      }
    }
  }
};

// Elements that a row of a tile in shared memory takes: with them, rows begin at multiples of 16
// bytes and neighbours in other banks.
template <class Element>
constexpr int tile_stride(int cols) {
  return cols + 16 / static_cast<int>(sizeof(Element));
}

// Calls f.template operator()<Unit>() with the way in which elements of that dtype are multiplied.
template <class F>
void visit_units(DType t, bool tf32, F&& f) {
  switch (t) {
    case DType::Float16: return f.template operator()<HalfUnit<half>>();
    case DType::BFloat16: return f.template operator()<HalfUnit<bfloat16>>();
    case DType::Float64: return f.template operator()<PlainUnit<double>>();
    default:
      return tf32 ? f.template operator()<Tf32Unit>() : f.template operator()<PlainUnit<float>>();
  }
}

}  // namespace moonlet::cuda
