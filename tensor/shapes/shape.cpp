// tensor/shapes/shape.cpp: argument checks and result shapes of joining, padding and the gradients
// of views.
#include "tensor/shapes/shape.h"

#include <algorithm>

#include "tensor/core/views.h"
#include "tensor/shapes/window.h"
#include "tensor/shapes_shape.h"

namespace moonlet::shapes {

// Whether strides say channels last, also those of a part cut out of such a tensor; where they say
// both, as with one channel, row-major is meant.
static bool cut_from_channels_last(const Tensor& x) {
  if (x.dim() != 4 || x.numel() == 0 || x.stride(1) == 0) return false;
  int64_t inner = 0;
  for (int d : {1, 3, 2, 0}) {
    if (x.stride(d) < inner || (d == 0 && inner == x.stride(1))) return false;
    inner = x.stride(d) * x.size(d);
  }
  return true;
}

// An empty tensor of one dimension is joined with tensors of any shape.
static bool adds_nothing(const Tensor& x) { return x.dim() == 1 && x.numel() == 0; }

Result cat(const std::vector<Tensor>& tensors, int64_t dim) {
  check(!tensors.empty(), "cat: wants at least one tensor, got an empty list");
  const Tensor& first = *std::find_if(tensors.begin(), tensors.end() - 1,
                                      [](const Tensor& x) { return !adds_nothing(x); });
  check(first.dim() > 0, "cat: tensor 1 has shape (), which cannot be joined; use stack");
  const int d = wrapped(dim, first.dim());
  Dims sizes = first.sizes();
  sizes[d] = 0;
  DType dtype = first.dtype();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check(x.device() == first.device(), "cat: tensor ", i + 1, " is on ", x.device(),
          ", tensor 1 on ", first.device());
    dtype = promote(dtype, x.dtype(), "cat");
    if (adds_nothing(x)) continue;
    bool fits = x.dim() == first.dim();
    for (int k = 0; fits && k < x.dim(); ++k) fits = k == d || x.size(k) == first.size(k);
    check(fits, "cat: tensor ", i + 1, " has shape ", x.sizes(), ", tensor 1 has shape ",
          tensors[0].sizes(), "; sizes may differ in dim ", d + 1, " only");
    sizes[d] = checked_add(sizes[d], x.size(d), "cat");
  }
  const bool last = std::all_of(tensors.begin(), tensors.end(), cut_from_channels_last);
  const MemoryFormat format = last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
  return {sizes, {dtype, first.device()}, format_strides(format, sizes, "cat")};
}

Result block_diag(const std::vector<Tensor>& tensors) {
  const char* op = "block_diag";
  check(!tensors.empty(), op, ": wants at least one tensor, got an empty list");
  const Tensor& first = tensors[0];
  DType dtype = first.dtype();
  int64_t rows = 0, columns = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check(x.dim() <= 2, op, ": tensor ", i + 1, " has shape ", x.sizes(),
          ", and at most 2 dimensions are expected");
    check(x.device() == first.device(), op, ": tensor ", i + 1, " is on ", x.device(),
          ", tensor 1 on ", first.device());
    dtype = promote(dtype, x.dtype(), op);
    rows = checked_add(rows, x.dim() == 2 ? x.size(0) : 1, op);
    columns = checked_add(columns, x.dim() == 2 ? x.size(1) : x.numel(), op);
  }
  return {Dims{rows, columns}, {dtype, first.device()}};
}

namespace {

// A tensor of that shape that takes the memory of one element: views of it have the sizes, and
// meet the checks, of views of the real one.
Tensor stand_in(const Dims& size, const char* op) {
  numel_of(size, op);
  return alias(empty_plain(Dims{}, Options{}, op), size, Dims::filled(size.size(), 0), 0);
}

// Dims are wrapped by the rank that follows from grad's.
void check_rank(const char* op, const Tensor& grad, int more, const Dims& size) {
  check(size.size() == grad.dim() + more, op, ": size is ", size, " and grad has shape ",
        grad.sizes(), "; ", grad.dim() + more, " sizes are expected");
}

Result gradient_of(const char* op, const Tensor& view, const Tensor& grad, const Dims& size) {
  check(view.sizes() == grad.sizes(), op, ": grad has shape ", grad.sizes(), ", and the view of ",
        size, " has shape ", view.sizes());
  return {size, options_of(grad)};
}

}  // namespace

Result select_grad_x(const Tensor& grad, const Dims& size, int64_t dim, int64_t index) {
  const char* op = "select_grad_x";
  check_rank(op, grad, 1, size);
  return gradient_of(op, views::select(stand_in(size, op), dim, index), grad, size);
}

Result slice_grad_x(const Tensor& grad, const Dims& size, int64_t dim, int64_t start, int64_t stop,
                    int64_t step) {
  const char* op = "slice_grad_x";
  check_rank(op, grad, 0, size);
  return gradient_of(op, views::slice(stand_in(size, op), dim, start, stop, step), grad, size);
}

Result diagonal_grad_x(const Tensor& grad, const Dims& size, int64_t offset, int64_t dim1,
                       int64_t dim2) {
  const char* op = "diagonal_grad_x";
  check_rank(op, grad, 1, size);
  return gradient_of(op, views::diagonal(stand_in(size, op), offset, dim1, dim2), grad, size);
}

Border border(const std::vector<int64_t>& pad, int dim, int rank) {
  const size_t pair = 2 * static_cast<size_t>(rank - 1 - dim);
  return pair + 1 < pad.size() ? Border{pad[pair], pad[pair + 1]} : Border{};
}

void check_pad(const Tensor& x, const std::vector<int64_t>& pad, const char* op) {
  check(pad.size() % 2 == 0, op, ": pad wants pairs (before, after), got ", text_of(pad));
  check(pad.size() / 2 <= static_cast<size_t>(x.dim()), op, ": pad ", text_of(pad),
        " names more dimensions than shape ", x.sizes(), " has");
  for (int d = 0; d < x.dim(); ++d) {
    const Border b = border(pad, d, x.dim());
    const int64_t kept_after_before = checked_add(x.size(d), std::min<int64_t>(b.before, 0), op);
    const int64_t kept = checked_add(kept_after_before, std::min<int64_t>(b.after, 0), op);
    check(kept >= 0, op, ": pad (", b.before, ", ", b.after, ") cuts more than dim ", d + 1,
          " of shape ", x.sizes(), " has");
  }
}

Result constant_pad(const Tensor& x, const std::vector<int64_t>& pad, Scalar value) {
  check_pad(x, pad, "constant_pad");
  Dims sizes = x.sizes();
  for (int d = 0; d < x.dim(); ++d) {
    const Border b = border(pad, d, x.dim());
    sizes[d] =
        checked_add(checked_add(sizes[d], b.before, "constant_pad"), b.after, "constant_pad");
  }
  check_fits(value, x.dtype(), "constant_pad");
  return images("constant_pad", sizes, x);
}

Result flip(const Tensor& x, const Dims&) {
  return laid_out_like(x, MemoryFormat::Preserve, options_of(x), "flip");
}

}  // namespace moonlet::shapes
