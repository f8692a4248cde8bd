// tensor/core/view_writer.h: kernels that only fill a result and copy into views of it, the same on
// every device but for the device's own fill and copy.
#pragma once
#include <algorithm>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/core/views.h"
#include "tensor/shapes/shape.h"

namespace moonlet {

struct ViewWriter {
  void (*fill)(Tensor& x, Scalar value);
  void (*copy)(Tensor& x, const Tensor& source);
  int64_t call_cost;  // the elements that are filled in the time that a call takes

  // grad laid into position `index` along `dim` of zeros.
  void select_grad_x(const Tensor& grad, int64_t dim, int64_t index, Tensor& y) const {
    fill(y, Scalar(0));
    Tensor part = views::select(y, dim, index);
    copy(part, grad);
  }

  // grad laid into the positions of a slice of zeros.
  void slice_grad_x(const Tensor& grad, int64_t dim, int64_t start, int64_t stop, int64_t step,
                    Tensor& y) const {
    Tensor part = views::slice(y, dim, start, stop, step);
    if (part.numel() != y.numel()) fill(y, Scalar(0));
    copy(part, grad);
  }

  // grad laid onto a diagonal of zeros.
  void diagonal_grad_x(const Tensor& grad, int64_t offset, int64_t dim1, int64_t dim2,
                       Tensor& y) const {
    fill(y, Scalar(0));
    Tensor part = views::diagonal(y, offset, dim1, dim2);
    copy(part, grad);
  }

  // Matrices along the diagonal of y, each a row where it has fewer dimensions; zeros beside them.
  void block_diag(const std::vector<Tensor>& blocks, Tensor& y) const {
    const bool at_once = 2 * static_cast<int64_t>(blocks.size()) * call_cost > y.numel();
    if (at_once && y.numel() > 0) fill(y, Scalar(0));
    int64_t row = 0, column = 0;
    for (const Tensor& x : blocks) {
      const int64_t rows = x.dim() == 2 ? x.size(0) : 1;
      const int64_t width = x.dim() == 2 ? x.size(1) : x.numel();
      const Tensor band = views::slice(y, 0, row, row + rows, 1);
      Tensor beside[] = {views::slice(band, 1, 0, column, 1),
                         views::slice(band, 1, column + width, y.size(1), 1)};
      for (Tensor& part : beside)
        if (!at_once && part.numel() > 0) fill(part, Scalar(0));
      if (x.numel() > 0) {
        Tensor part = views::slice(band, 1, column, column + width, 1);
        while (part.dim() > x.dim()) part = views::select(part, 0, 0);
        copy(part, x);
      }
      row += rows;
      column += width;
    }
  }

  // x in the middle of y, less what a negative border cuts off, with `value` around it.
  void constant_pad(const Tensor& x, const std::vector<int64_t>& pad, Scalar value,
                    Tensor& y) const {
    Tensor from = x, to = y;
    std::vector<Tensor> border;  // without what the border of an earlier dimension has
    for (int d = 0; d < x.dim(); ++d) {
      const auto [before, after] = shapes::border(pad, d, x.dim());
      const int64_t cut = std::max<int64_t>(-before, 0), skip = std::max<int64_t>(before, 0);
      const int64_t kept = x.size(d) - cut - std::max<int64_t>(-after, 0);
      if (before > 0) border.push_back(views::slice(to, d, 0, skip, 1));
      if (after > 0) border.push_back(views::slice(to, d, skip + kept, y.size(d), 1));
      from = views::slice(from, d, cut, cut + kept, 1);
      to = views::slice(to, d, skip, skip + kept, 1);
    }
    if (static_cast<int64_t>(border.size()) * call_cost > to.numel() + call_cost) {
      fill(y, value);
    } else {
      for (Tensor& part : border)
        if (part.numel() > 0) fill(part, value);
    }
    copy(to, from);
  }
};

// Fills the main diagonal of x; where it wraps, each block of cols + 1 rows has one.
inline void fill_diagonal_by(void (*fill)(Tensor& x, Scalar value), Tensor& x, Scalar value,
                             bool wrap) {
  if (x.numel() == 0) return;
  int64_t count = x.size(0), step = 0;
  for (int d = 0; d < x.dim(); ++d) {
    count = std::min(count, x.size(d));
    step += x.stride(d);
  }
  const int64_t rows = x.size(0), block = count + 1;
  const int64_t last = wrap && x.dim() == 2 ? rows : 1;
  for (int64_t row = 0; row < last; row += block) {
    const int64_t length = std::min(count, rows - row);
    Tensor part = part_of(x, {length}, {step}, x.offset() + row * x.stride(0));
    fill(part, value);
  }
}

}  // namespace moonlet
