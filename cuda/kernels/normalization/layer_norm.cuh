// cuda/kernels/normalization/layer_norm.cuh: rows of layer_norm and rms_norm, their weights and
// their gradients as the kernels hold them, and how rows are shared out to teams of threads.
#pragma once

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moments.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/normalization/layer_norm.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cuda {

// Rows, and their weights and biases, which may be null.
struct RowInputs {
  const char *x, *weight, *bias;
};

// The weights, of type W, of a pack of T from element i on, of which n are left.
template <class T, class W>
__device__ __forceinline__ Floats<T> weights_at(const char* weights, bool whole, int64_t i,
                                                int64_t n) {
  constexpr int kPart = Floats<W>::kCount;
  Floats<T> out;
  MOONLET_UNROLL
  for (int first = 0; first < out.kCount; first += kPart) {
    const Floats<W> part = pack_at<W>(weights + (i + first) * static_cast<int64_t>(sizeof(W)),
                                      whole, n - first, Computed<W>(0));
    MOONLET_UNROLL
    for (int k = 0; k < kPart; ++k) out.v[first + k] = part.v[k];
  }
  return out;
}

// What a row's numbers become: their packs from element i on.
template <class T, class W>
struct NormalOf {
  RowInputs in;
  const char* row;
  const Center<Computed<T>>& center;
  __device__ __forceinline__ Floats<T> operator()(int64_t i, int64_t n) const {
    using C = Computed<T>;
    const int64_t at = i * static_cast<int64_t>(sizeof(T));
    Floats<T> v = floats_at<T>(row + at, n, C(0));
    MOONLET_UNROLL
    for (int k = 0; k < v.kCount; ++k) v.v[k] = center.normal(v.v[k]);
    if (in.weight != nullptr) scale(v, weights_at<T, W>(in.weight, false, i, n));
    if (in.bias != nullptr) move(v, weights_at<T, W>(in.bias, false, i, n));
    return v;
  }
  __device__ __forceinline__ static void scale(Floats<T>& v, const Floats<T>& weights) {
    MOONLET_UNROLL
    for (int k = 0; k < v.kCount; ++k) v.v[k] *= weights.v[k];
  }
  __device__ __forceinline__ static void move(Floats<T>& v, const Floats<T>& biases) {
    MOONLET_UNROLL
    for (int k = 0; k < v.kCount; ++k) v.v[k] += biases.v[k];
  }
};

// The weights of pack h of those that a thread of a team holds of a row.
template <class T, class W>
__device__ __forceinline__ Floats<T> held_weights(const char* weights, const RowPlan& p, bool whole,
                                                  int64_t me, int h) {
  const int64_t i = ((int64_t{h} << p.team_log) + me) * Floats<T>::kCount;
  return weights_at<T, W>(weights, whole, i, p.size - i);
}

// The packs of a row that a thread holds, as they lie in memory.
template <int kPacks = kHeld>
struct HeldWords {
  Words<16> packs[kPacks];
  // Of a row of whole packs.
  __device__ __forceinline__ void load(const char* row, int team_log, int64_t me, int count) {
    MOONLET_UNROLL
    for (int h = 0; h < kPacks; ++h)
      if (h < count) packs[h] = load_words<16>(row + ((int64_t{h} << team_log) + me) * 16);
  }
  // Of any row; beyond its end are zeros.
  template <class T>
  __device__ __forceinline__ void load(const char* row, const RowPlan& p, int64_t me, int count) {
    if (p.whole) return load(row, p.team_log, me, count);
    MOONLET_UNROLL
    for (int h = 0; h < kPacks; ++h) {
      const int64_t i = ((int64_t{h} << p.team_log) + me) * Floats<T>::kCount;
      if (h < count)
        packs[h] = packed<T>(floats_at<T>(row + i * sizeof(T), p.size - i, Computed<T>(0)));
    }
  }
};

// What a pack adds to the sums of e and of e h.
template <class T>
__device__ __forceinline__ void add_terms(const Floats<T>& e, const Floats<T>& normals,
                                          Computed<T>& first, Computed<T>& second) {
  MOONLET_UNROLL
  for (int k = 0; k < e.kCount; ++k) {
    first += e.v[k];
    second += e.v[k] * normals.v[k];
  }
}

// The gradients of a row's packs from element i on.
template <class T, class W>
struct RowGradientOf {
  const char *grad, *x, *weight;
  Center<Computed<T>> center;
  Computed<T> first, second;
  __device__ __forceinline__ Floats<T> scaled(int64_t i, int64_t n) const {
    using C = Computed<T>;
    const int64_t at = i * static_cast<int64_t>(sizeof(T));
    Floats<T> v = floats_at<T>(grad + at, n, C(0));
    if (weight != nullptr) NormalOf<T, W>::scale(v, weights_at<T, W>(weight, false, i, n));
    return v;
  }
  __device__ __forceinline__ Floats<T> normal(int64_t i, int64_t n) const {
    Floats<T> v = floats_at<T>(x + i * sizeof(T), n, center.mean);
    MOONLET_UNROLL
    for (int k = 0; k < v.kCount; ++k) v.v[k] = center.normal(v.v[k]);
    return v;
  }
  __device__ __forceinline__ Floats<T> operator()(int64_t i, int64_t n) const {
    Floats<T> e = scaled(i, n);
    const Floats<T> normals = normal(i, n);
    MOONLET_UNROLL
    for (int k = 0; k < e.kCount; ++k)
      e.v[k] = center.scaled(e.v[k] - first - normals.v[k] * second);
    return e;
  }
  // Adds what the packs of every `team` add to both sums.
  __device__ __forceinline__ void add(int64_t size, int team, int me) {
    constexpr int kCount = Floats<T>::kCount;
    for (int64_t i = int64_t{me} * kCount; i < size; i += int64_t{team} * kCount)
      add_terms<T>(scaled(i, size - i), normal(i, size - i), first, second);
  }
};

// Weights and biases as kernels read them: in x's dtype or, beside 16-bit numbers, in float32.
struct Factors {
  Tensor weight, bias;
  bool wide;
  Factors(const Tensor& x, const Tensor& given_weight, const Tensor& given_bias)
      : weight(given_weight), bias(given_bias), wide(differs(weight, x) || differs(bias, x)) {
    for (Tensor* t : {&weight, &bias})
      if (t->defined()) *t = converted(*t, wide ? DType::Float32 : x.dtype());
  }

 private:
  static bool differs(const Tensor& t, const Tensor& x) {
    return t.defined() && t.dtype() != x.dtype();
  }
};

// Calls f.template operator()<T, W>() with the types of the elements of rows and of their factors.
template <class F>
void visit_rows(DType t, const Factors& factors, const F& f) {
  visit_float_types(t, [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      if (factors.wide) return f.template operator()<T, float>();
    f.template operator()<T, T>();
  });
}

// How rows are shared out, and whether a team can hold one.
struct RowWork {
  RowPlan plan;
  RowInputs in;
  bool held;
  double inverse;
  unsigned blocks;
};
inline RowWork row_work(const Rows& rows, const Tensor& x, const Factors& factors,
                        const Tensor& other, const Tensor& y) {
  const int bytes = static_cast<int>(size_of(x.dtype()));
  const Tensor &weight = factors.weight, &bias = factors.bias;
  RowWork out;
  out.held = can_hold(rows.count, rows.size, bytes);
  out.plan = plan_teams(rows.count, rows.size, out.held ? holding_team(rows.size, bytes) : kBlock,
                        bytes, {&x, &weight, &bias, &other, &y});
  out.in = {x.raw(), weight.defined() ? weight.raw() : nullptr,
            bias.defined() ? bias.raw() : nullptr};
  out.inverse = 1.0 / static_cast<double>(rows.size);
  out.blocks = blocks_for(rows.count * out.plan.team);
  return out;
}

inline double* statistics(const Tensor& t) {
  return t.defined() ? reinterpret_cast<double*>(t.raw()) : nullptr;
}

// Gradients and rows of two dtypes as float32, which both then fit.
inline RowGradients of_one_dtype(const RowGradients& in) {
  if (in.grad.dtype() == in.x.dtype()) return in;
  return {converted(in.grad, DType::Float32), converted(in.x, DType::Float32), in.mean, in.rstd};
}

}  // namespace moonlet::cuda
