// tensor/cpu/copy/shape_flip.cpp: tensors with some dimensions backwards on the CPU.
#include "tensor/core/geometry.h"
#include "tensor/cpu/common/dense_copy.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/copy/copy.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_shape.h"

namespace moonlet::cpu {

namespace {

// A tensor read with some dimensions backwards: signed strides from the first element read.
struct Flipped {
  int rank;
  int64_t size[kMaxDims];
  int64_t in[kMaxDims];
  int64_t out[kMaxDims];
};

template <class T>
void flip_row(T* out, int64_t out_step, const T* in, int64_t in_step, int64_t count) {
  if (out_step == 1 && in_step == 1) {
    copy_bytes(out, in, count * static_cast<int64_t>(sizeof(T)));
  } else if (out_step == 1 && in_step == -1) {
    const DenseConverter reverse = reverser(sizeof(T));
    serial_for(count, 1, [&](int64_t begin, int64_t end) {
      reverse(in - (end - 1), out + begin, static_cast<size_t>(end - begin));
    });
  } else {
    serial_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i * out_step] = in[i * in_step];
    });
  }
}

// Rows of kWidth elements, or of so few that a call for each would take longer than they do.
constexpr int64_t kShortRow = thresholds::copy::kFlippedRow;
template <int kWidth, class T>
void flip_short_rows(T* out, const T* in, const Flipped& f, int64_t rows) {
  const int last = f.rank - 1;
  const int64_t width = kWidth > 0 ? kWidth : f.size[last];
  for (int64_t r = 0; r < rows; ++r, out += f.out[last - 1], in += f.in[last - 1])
    for (int64_t i = 0; i < width; ++i) out[i * f.out[last]] = in[i * f.in[last]];
}

// Neighbouring rows along the last dimension but one.
template <class T>
void flip_rows(T* out, const T* in, const Flipped& f, int64_t rows) {
  const int last = f.rank - 1;
  const int64_t width = f.size[last];
  if (width == 2) return flip_short_rows<2>(out, in, f, rows);
  if (width == 3) return flip_short_rows<3>(out, in, f, rows);
  if (width == 4) return flip_short_rows<4>(out, in, f, rows);
  if (width < kShortRow) return flip_short_rows<0>(out, in, f, rows);
  for (int64_t r = 0; r < rows; ++r)
    flip_row(out + r * f.out[last - 1], f.out[last], in + r * f.in[last - 1], f.in[last], width);
}

template <class T>
void flip_all(T* out, const T* in, const Flipped& f) {
  const int last = f.rank - 1;
  if (last == 0)
    return parallel_for(f.size[0], kGrain, [&](int64_t begin, int64_t end) {
      flip_row(out + begin * f.out[0], f.out[0], in + begin * f.in[0], f.in[0], end - begin);
    });
  int64_t rows = 1;
  for (int d = 0; d < last; ++d) rows *= f.size[d];
  const int64_t row_bytes = f.size[last] * static_cast<int64_t>(sizeof(T));
  parallel_for(rows, grain_for(row_bytes / thresholds::copy::kBytesPerStep),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin, n = 0; r < end; r += n) {
                   n = std::min(end - r, f.size[last - 1] - r % f.size[last - 1]);
                   int64_t rest = r, to = 0, from = 0;
                   for (int d = last - 1; d >= 0; --d) {
                     const int64_t i = rest % f.size[d];
                     rest /= f.size[d];
                     to += i * f.out[d];
                     from += i * f.in[d];
                   }
                   flip_rows(out + to, in + from, f, n);
                 }
               });
}

}  // namespace

void flip(const Tensor& x, const Dims& dims, Tensor& y) {
  if (x.numel() == 0) return;
  if (x.dim() == 0) return copy(y, x);
  Flipped f;
  int64_t first = 0;
  for (int d = 0; d < x.dim(); ++d) {
    const bool back = dims.contains(d);
    f.size[d] = x.size(d);
    f.out[d] = y.stride(d);
    f.in[d] = back ? -x.stride(d) : x.stride(d);
    if (back) first += (x.size(d) - 1) * x.stride(d);
  }
  // In the order of y's memory.
  f.rank = collapse_sorted_dims<Innermost::Last>(x.dim(), f.size, [&](auto&& each) {
    each(f.out);
    each(f.in);
  });
  if (f.rank == 0) f.size[f.rank++] = 1;
  visit_bytes(x.dtype(), [&]<class T>() { flip_all(y.elements<T>(), x.elements<T>() + first, f); });
}

}  // namespace moonlet::cpu
