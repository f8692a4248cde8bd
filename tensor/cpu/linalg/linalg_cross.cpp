// tensor/cpu/linalg/linalg_cross.cpp: cross products of vectors of three elements on the CPU.
#include <algorithm>

#include "tensor/core/views.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/index/index_walk.h"
#include "tensor/kernels_linalg.h"

namespace moonlet::cpu {
namespace {

// What products of T's elements are made in: integers wrap around.
template <class T>
using product_t = std::conditional_t<std::is_integral_v<T>, uint64_t, compute_t<T>>;

// Vectors of three elements: how far apart the elements of one lie, and the vectors.
struct Triples {
  int64_t part, step;
};

// y[i] = a[i] x b[i] for n vectors.
template <class T>
void cross_run(const T* a, Triples at_a, const T* b, Triples at_b, T* y, Triples at_y, int64_t n) {
  const auto get = [](const T* from, int64_t at) { return static_cast<product_t<T>>(from[at]); };
  for (int64_t i = 0; i < n; ++i, a += at_a.step, b += at_b.step, y += at_y.step) {
    const auto a0 = get(a, 0), a1 = get(a, at_a.part), a2 = get(a, 2 * at_a.part);
    const auto b0 = get(b, 0), b1 = get(b, at_b.part), b2 = get(b, 2 * at_b.part);
    y[0] = static_cast<T>(a1 * b2 - a2 * b1);
    y[at_y.part] = static_cast<T>(a2 * b0 - a0 * b2);
    y[2 * at_y.part] = static_cast<T>(a0 * b1 - a1 * b0);
  }
}

}  // namespace

void linalg_cross(const Tensor& x, const Tensor& other, int64_t dim, Tensor& y) {
  if (y.numel() == 0) return;
  const int d = static_cast<int>(dim);
  // The vectors as rows of them, which go along the last dimension but the one of their elements.
  const Tensor wide[] = {views::expand(x, y.sizes()), views::expand(other, y.sizes()), y};
  const int along = d + 1 == y.dim() ? d - 1 : y.dim() - 1;
  const int64_t n = along < 0 ? 1 : y.size(along);
  Dims sizes = y.sizes(), strides[3];
  Triples at[3];
  sizes[d] = 1;
  if (along >= 0) sizes[along] = 1;
  for (int k = 0; k < 3; ++k) {
    strides[k] = wide[k].strides();
    at[k] = {strides[k][d], along < 0 ? 0 : strides[k][along]};
  }
  visit<dtypes::real | dtypes::complex>(y.dtype(), [&]<class T>() {
    parallel_for(y.numel() / 3, grain_for(4), [&](int64_t begin, int64_t end) {
      Walk<3> row(sizes, strides, begin / n);
      for (int64_t i = begin; i < end; row.next()) {
        const int64_t first = i % n, count = std::min(n - first, end - i);
        const auto from = [&](int k) {
          return wide[k].elements<T>() + row.offset(k) + first * at[k].step;
        };
        cross_run<T>(from(0), at[0], from(1), at[1], from(2), at[2], count);
        i += count;
      }
    });
  });
}

}  // namespace moonlet::cpu
