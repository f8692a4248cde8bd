// tensor/cpu/copy/create.cpp: kernels of ranges, triangles and diagonal matrices.
#include "tensor/core/view_writer.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_create.h"

namespace moonlet::cpu {

void iota(Tensor& x, Scalar first, Scalar step) {
  with_contiguous(x, [&](Tensor& y) {
    visit<dtypes::real | dtypes::boolean>(y.dtype(), [&]<class T>() {
      T* to = y.elements<T>();
      const bool ints = first.is_int() && step.is_int();
      const uint64_t a = static_cast<uint64_t>(first.to_int());
      const uint64_t b = static_cast<uint64_t>(step.to_int());
      const double start = first.to_double(), by = step.to_double();
      parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Scalar v = ints ? Scalar(static_cast<int64_t>(a + b * static_cast<uint64_t>(i)))
                                : Scalar(start + by * static_cast<double>(i));
          to[i] = v.to<T>();
        }
      });
    });
  });
}

namespace {

// Elements of T, of which those from `first` to `last` are the others' and the rest are 0: few of
// them, for which a call each would take longer.
template <class T>
void keep_few(T* out, const T* in, int64_t first, int64_t last, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = i >= first && i < last ? in[i] : T{};
}

// Copies the columns of each row i for which keep(i) gives the range, and zeros the others.
template <class Keep>
void triangle(const Tensor& x, Tensor& y, const Keep& keep) {
  if (y.numel() == 0) return;
  const bool direct = x.is_contiguous();
  if (!direct) copy_into(y, x);
  const int64_t rows = x.size(-2), cols = x.size(-1), bytes = size_of(x.dtype());
  constexpr int64_t kFew = thresholds::copy::kFewColumns;
  if (cols < kFew)
    return visit_bytes(x.dtype(), [&]<class T>() {
      const T* from = direct ? x.elements<T>() : y.elements<T>();
      parallel_for(x.numel() / cols, grain_for(cols), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const auto [first, last] = keep(r % rows);
          keep_few(y.elements<T>() + r * cols, from + r * cols, first, last, cols);
        }
      });
    });
  parallel_for(x.numel() / cols, grain_for(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto [first, last] = keep(r % rows);
      const int64_t from = std::clamp<int64_t>(first, 0, cols);
      const int64_t to = std::clamp<int64_t>(last, from, cols);
      char* out = y.raw() + r * cols * bytes;
      zero_bytes(out, from * bytes);
      if (direct)
        copy_bytes(out + from * bytes, x.raw() + (r * cols + from) * bytes, (to - from) * bytes);
      zero_bytes(out + to * bytes, (cols - to) * bytes);
    }
  });
}

// Diagonals beyond any matrix, kept where sums with row numbers do not overflow.
int64_t near(int64_t diagonal) {
  return std::clamp<int64_t>(diagonal, -(int64_t{1} << 60), int64_t{1} << 60);
}

}  // namespace

void tril(const Tensor& x, int64_t diagonal, Tensor& y) {
  triangle(x, y,
           [d = near(diagonal)](int64_t i) { return std::pair<int64_t, int64_t>(0, i + d + 1); });
}

void triu(const Tensor& x, int64_t diagonal, Tensor& y) {
  triangle(x, y, [d = near(diagonal)](int64_t i) {
    return std::pair<int64_t, int64_t>(i + d, int64_t{1} << 62);
  });
}

void fill_diagonal(Tensor& x, Scalar value, bool wrap) { fill_diagonal_by(fill, x, value, wrap); }

}  // namespace moonlet::cpu
