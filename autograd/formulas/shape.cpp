// autograd/formulas/shape.cpp: derivatives of views and joins whose pieces overlap, move or are
// many.
#include "autograd/formulas.h"

#include <algorithm>

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_shape.h"
#include "tensor/core/memory_overlap.h"
#include "tensor/core/plain_copy.h"
#include "tensor/core/views.h"
#include "tensor/runtime/backend.h"

namespace moonlet::formulas {

namespace {

// Zeros that no tape knows of.
// Inside vmap a tensor has no memory that could be written to directly.
bool has_memory(const Tensor& x) { return !x.device().is_batched(); }

Tensor plain_zeros(const Dims& sizes, Options options, const char* op) {
  if (options.device.is_batched() || execution.capture != nullptr) return zeros(sizes, options);
  Tensor out = empty_plain(sizes, options, op);
  fill_plain(out, Scalar(0), op);
  return out;
}

// One past the last element that a layout reaches.
int64_t end_of(const Dims& size, const Dims& stride, int64_t offset) {
  int64_t last = offset;
  for (int d = 0; d < size.size(); ++d) last += (size[d] - 1) * stride[d];
  return last + 1;
}

// The 1-based position of each element of a layout.
Tensor strided_positions(const Dims& size, const Dims& stride, int64_t offset, Device device) {
  const int64_t count = numel_of(size, "as_strided_grad_x");
  Tensor host = empty_plain({count}, {DType::Int64, Device{}}, "as_strided_grad_x");
  int64_t* out = host.elements<int64_t>();
  int64_t index[kMaxDims] = {};
  int64_t at = offset + 1;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = at;
    for (int d = size.size() - 1; d >= 0; --d) {
      at += stride[d];
      if (++index[d] < size[d]) break;
      at -= size[d] * stride[d];
      index[d] = 0;
    }
  }
  if (device.is_cpu()) return host;
  Tensor moved = empty_plain({count}, {DType::Int64, device}, "as_strided_grad_x");
  copy_plain(moved, host, "as_strided_grad_x");
  return moved;
}

// `length` zeros with g added at the elements of a layout.
Tensor strided_sums(int64_t length, const Tensor& g, const Dims& size, const Dims& stride,
                    int64_t offset) {
  constexpr const char* kOp = "as_strided_grad_x";
  const Tensor zeros = plain_zeros({length}, options_of(g), kOp);
  if (!derivatives_wanted() && has_memory(g) && !overlaps_itself(size, stride)) {
    Tensor part = part_of(zeros, size, stride, offset);
    if (execution.capture != nullptr)
      copy_(part, g);
    else
      copy_plain(part, g, kOp);
    return zeros;
  }
  const Tensor shown = strided_positions(size, stride, offset, g.device().real());
  return index_add(zeros, 0, shown, reshape(g, {-1}));
}

// Adds g to a part of the sum so far; false where there is none that takes it.
template <class Part>
bool added_in_place(Tensor* so_far, const Tensor& g, Part&& part) {
  if (so_far == nullptr || !has_memory(*so_far) || so_far->dtype() != g.dtype() ||
      so_far->device() != g.device())
    return false;
  Tensor position = part(*so_far);
  add_(position, g);
  return true;
}

}  // namespace

Tensor select_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim,
                     int64_t index) {
  const auto part = [&](const Tensor& sum) { return views::select(sum, dim, index); };
  if (added_in_place(so_far, g, part)) return {};
  return moonlet::select_grad_x(g, size, dim, index);
}

Tensor slice_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim, int64_t start,
                    int64_t stop, int64_t step) {
  const auto part = [&](const Tensor& sum) { return views::slice(sum, dim, start, stop, step); };
  if (added_in_place(so_far, g, part)) return {};
  return moonlet::slice_grad_x(g, size, dim, start, stop, step);
}

Tensor diagonal_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t offset,
                       int64_t dim1, int64_t dim2) {
  const auto part = [&](const Tensor& sum) { return views::diagonal(sum, offset, dim1, dim2); };
  if (added_in_place(so_far, g, part)) return {};
  return moonlet::diagonal_grad_x(g, size, offset, dim1, dim2);
}

std::vector<int64_t> negated(const std::vector<int64_t>& values) {
  std::vector<int64_t> out = values;
  for (int64_t& value : out) value = -value;
  return out;
}

Tensor permute_grad_x(const Tensor& g, const Dims& dims) {
  Dims inverse = dims;
  for (int i = 0; i < dims.size(); ++i) inverse[static_cast<int>(dims[i])] = i;
  return permute(g, inverse);
}

Tensor as_strided_grad_x(const Tensor& g, const Dims& x_size, const Dims& x_stride,
                         int64_t x_offset, const Dims& size, const Dims& stride, int64_t offset) {
  constexpr const char* kOp = "as_strided_grad_x";
  const int64_t count = numel_of(x_size, kOp);
  if (g.numel() == 0 || count == 0) return plain_zeros(x_size, options_of(g), kOp);
  // The part of the storage that holds both: g is added up in it, and x's elements read from it.
  const int64_t first = std::min(x_offset, offset);
  const int64_t end = std::max(end_of(x_size, x_stride, x_offset), end_of(size, stride, offset));
  const Tensor sums = strided_sums(end - first, g, size, stride, offset - first);
  const int64_t own = x_offset - first;
  if (is_contiguous(x_size, x_stride)) return reshape(slice(sums, 0, own, own + count, 1), x_size);
  if (!derivatives_wanted() && has_memory(g) && !overlaps_itself(x_size, x_stride))
    return part_of(sums, x_size, x_stride, own);
  const Tensor positions = strided_positions(x_size, x_stride, own, g.device().real());
  Tensor out = index_select(sums, 0, positions);
  if (overlaps_itself(x_size, x_stride)) {
    const Tensor zeros = plain_zeros({end - first}, options_of(g), kOp);
    const Tensor sharers = index_add(zeros, 0, positions, ones({count}, options_of(g)));
    out = div(out, index_select(sharers, 0, positions));
  }
  return reshape(out, x_size);
}

Tensor unfold_grad_x(const Tensor& given, const Dims& x_size, int64_t dim, int64_t size,
                     int64_t step) {
  const Tensor g = widened(given);
  const int d = wrapped(dim, x_size.size());
  const int64_t windows = g.size(d);
  // The i-th elements of all windows never coincide, so each i is one copy, and the sum over i
  // comes in a fixed order.
  Tensor total;
  for (int64_t i = 0; i < size && g.numel() > 0; ++i) {
    const Tensor part = select(g, g.dim() - 1, i);
    const int64_t stop = i + (windows - 1) * step + 1;
    const Tensor laid = slice_grad_x(total.defined() && !derivatives_wanted() ? &total : nullptr,
                                     part, x_size, d, i, stop, step);
    if (laid.defined()) total = total.defined() ? add(total, laid) : laid;
  }
  return total.defined() ? total : plain_zeros(x_size, options_of(g), "unfold_grad_x");
}

std::vector<Tensor> cat_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes, int64_t dim) {
  const int d = wrapped(dim, g.dim());
  std::vector<Tensor> out;
  int64_t at = 0;
  for (const Dims& size : sizes) {
    if (size == Dims{0}) {  // it may be among tensors of any shape, and added nothing
      out.push_back(zeros(size, options_of(g)));
      continue;
    }
    out.push_back(slice(g, d, at, at + size[d], 1));
    at += size[d];
  }
  return out;
}

std::vector<Tensor> block_diag_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes) {
  std::vector<Tensor> out;
  int64_t row = 0, column = 0;
  for (const Dims& size : sizes) {
    const bool matrix = size.size() == 2;
    const int64_t rows = matrix ? size[0] : 1,
                  width = matrix ? size[1] : numel_of(size, "block_diag");
    const Tensor block = slice(slice(g, 0, row, row + rows, 1), 1, column, column + width, 1);
    out.push_back(matrix ? block : reshape(block, size));
    row += rows;
    column += width;
  }
  return out;
}

}  // namespace moonlet::formulas
