// tensor/cpu/reduce_arg.cpp: extremes with their positions: max, min, argmax and argmin.
#include <optional>

#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {

namespace {

// Whether v takes the place of best: NaN beats all numbers, and the first of equals stays.
template <bool kLargest, class T>
bool beats(T v, T best) {
  if (v != v) return best == best;
  return kLargest ? v > best : v < best;
}

// The compared form of an element: 16-bit floats as float32.
template <class T>
auto wide(T v) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) return float(v);
  else return v;
}

// The 0-based place of the extreme of n elements, `stride` apart.
template <bool kLargest, class T>
int64_t place_of(const T* x, int64_t n, int64_t stride) {
  int64_t at = 0;
  auto best = wide(x[0]);
  for (int64_t i = 1; i < n; ++i) {
    const auto v = wide(x[i * stride]);
    if (beats<kLargest>(v, best)) {
      best = v;
      at = i;
    }
  }
  return at;
}

// Runs along contiguous memory: eight candidates side by side, then the best and first of them.
template <bool kLargest, class T>
int64_t place_in_run(const T* x, int64_t n) {
  constexpr int kLanes = 8;
  if (n < 4 * kLanes) return place_of<kLargest>(x, n, 1);
  decltype(wide(x[0])) best[kLanes];
  int64_t at[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    best[k] = wide(x[k]);
    at[k] = k;
  }
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const auto v = wide(x[i + k]);
      const bool won = beats<kLargest>(v, best[k]);
      best[k] = won ? v : best[k];
      at[k] = won ? i + k : at[k];
    }
  }
  for (; i < n; ++i) {
    if (beats<kLargest>(wide(x[i]), best[0])) {
      best[0] = wide(x[i]);
      at[0] = i;
    }
  }
  int64_t winner = at[0];
  for (int k = 1; k < kLanes; ++k) {
    const auto a = wide(x[at[k]]), b = wide(x[winner]);
    const bool equal = a == b || (a != a && b != b);
    if (beats<kLargest>(a, b) || (equal && at[k] < winner)) winner = at[k];
  }
  return winner;
}

// Writes the extreme along `dim` (all elements when absent) and its 1-based position.
template <bool kLargest>
void find(const Tensor& given, std::optional<int64_t> dim, Tensor* values, Tensor& indices) {
  if (indices.numel() == 0) return;
  const Tensor x = contiguous(given);
  int64_t outer = 1, n = x.numel(), inner = 1;
  if (dim && x.dim()) {
    n = x.size(static_cast<int>(*dim));
    for (int d = 0; d < *dim; ++d) outer *= x.size(d);
    inner = x.numel() / (outer * n);
  }
  visit<dtypes::real | dtypes::boolean>(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    int64_t* at = indices.data<int64_t>();
    T* best = values ? values->data<T>() : nullptr;
    parallel_for(outer * inner, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = from + i / inner * n * inner + i % inner;
        const int64_t place =
            inner == 1 ? place_in_run<kLargest>(row, n) : place_of<kLargest>(row, n, inner);
        at[i] = place + 1;
        if (best) best[i] = row[place * inner];
      }
    });
  });
}

}  // namespace

void max_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  find<true>(x, dim, &values, indices);
}
void min_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  find<false>(x, dim, &values, indices);
}
void argmax(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  find<true>(x, dim, nullptr, y);
}
void argmin(const Tensor& x, std::optional<int64_t> dim, bool, Tensor& y) {
  find<false>(x, dim, nullptr, y);
}

}  // namespace moonlet::cpu
