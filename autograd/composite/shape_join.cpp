// autograd/composite/shape_join.cpp: tensors put together: side by side, as grids and as
// combinations of their elements; and brought to one shape or rank.
#include <algorithm>

#include "autograd/uses_composite_shape_join.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {

Tensor stack_composite(const std::vector<Tensor>& tensors, int64_t dim) {
  check(!tensors.empty(), "stack: wants at least one tensor, got an empty list");
  const int d = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  std::vector<Tensor> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].sizes() == tensors[0].sizes(), "stack: tensor ", i + 1, " has shape ",
          tensors[i].sizes(), ", tensor 1 has shape ", tensors[0].sizes());
    parts.push_back(unsqueeze(tensors[i], d));
  }
  return cat(parts, d);
}

Tensor hstack_composite(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "hstack: wants at least one tensor, got an empty list");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.dim() == 0 ? reshape(x, {1}) : x);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor vstack_composite(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "vstack: wants at least one tensor, got an empty list");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.dim() < 2 ? reshape(x, {1, x.numel()}) : x);
  return cat(parts, 0);
}

std::vector<Tensor> meshgrid_composite(const std::vector<Tensor>& tensors,
                                       std::string_view indexing) {
  check(indexing == "ij" || indexing == "xy", "meshgrid: indexing is \"ij\" or \"xy\", got \"",
        indexing, "\"");
  check(!tensors.empty(), "meshgrid: wants at least one tensor, got an empty list");
  check(tensors.size() <= static_cast<size_t>(kMaxDims), "meshgrid: at most ", kMaxDims,
        " tensors, got ", tensors.size());
  const int count = static_cast<int>(tensors.size());
  const bool swapped = indexing == "xy" && count >= 2;
  const auto position = [&](int i) { return swapped && i < 2 ? 1 - i : i; };
  Dims shape = Dims::filled(count, 1);
  for (int i = 0; i < count; ++i) {
    check(tensors[i].dim() <= 1, "meshgrid: tensor ", i + 1, " has shape ", tensors[i].sizes(),
          ", and at most 1 dimension is expected");
    shape[position(i)] = tensors[i].numel();
  }
  std::vector<Tensor> out;
  for (int i = 0; i < count; ++i) {
    Dims line = Dims::filled(count, 1);
    line[position(i)] = tensors[i].numel();
    out.push_back(expand(reshape(tensors[i], line), shape));
  }
  return out;
}

Tensor dstack_composite(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "dstack: wants at least one tensor, got an empty list");
  return cat(atleast_3d(tensors), 2);
}

Tensor column_stack_composite(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "column_stack: wants at least one tensor, got an empty list");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.dim() < 2 ? reshape(x, {x.numel(), 1}) : x);
  return cat(parts, 1);
}

// One shape or rank.

std::vector<Tensor> broadcast_tensors_composite(const std::vector<Tensor>& tensors) {
  Dims sizes;
  for (const Tensor& x : tensors) sizes = broadcast(sizes, x.sizes(), "broadcast_tensors");
  std::vector<Tensor> out;
  for (const Tensor& x : tensors) out.push_back(expand(x, sizes));
  return out;
}

namespace {

std::vector<Tensor> each(const std::vector<Tensor>& tensors, Tensor (*change)(const Tensor&)) {
  std::vector<Tensor> out;
  for (const Tensor& x : tensors) out.push_back(change(x));
  return out;
}

}  // namespace

Tensor atleast_1d_one_composite(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1}) : x; }
Tensor atleast_2d_one_composite(const Tensor& x) {
  return x.dim() < 2 ? reshape(x, {1, x.numel()}) : x;
}
Tensor atleast_3d_one_composite(const Tensor& x) {
  if (x.dim() < 2) return reshape(x, {1, x.numel(), 1});
  return x.dim() == 2 ? unsqueeze(x, -1) : x;
}
std::vector<Tensor> atleast_1d_composite(const std::vector<Tensor>& tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_1d_one(x); });
}
std::vector<Tensor> atleast_2d_composite(const std::vector<Tensor>& tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_2d_one(x); });
}
std::vector<Tensor> atleast_3d_composite(const std::vector<Tensor>& tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_3d_one(x); });
}

// Combinations of elements.

Tensor cartesian_prod_composite(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "cartesian_prod: wants at least one tensor, got an empty list");
  for (size_t i = 0; i < tensors.size(); ++i)
    check(tensors[i].dim() == 1, "cartesian_prod: tensor ", i + 1, " has shape ",
          tensors[i].sizes(), ", and 1 dimension is expected");
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(tensors, "ij")) columns.push_back(reshape(grid, {-1}));
  return stack(columns, 1);
}

namespace {

// The number of ways to choose `r` of `n`.
int64_t choices(int64_t n, int64_t r) {
  if (r > n) return 0;
  int64_t count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i)
    count = checked_mul(count, n - i + 1, "combinations") / i;
  return count;
}

// The positions (from 1) of all choices of `r` of `n`, in order, as rows; a position may come again
// where `repeated`.
Tensor chosen_positions(int64_t n, int64_t r, bool repeated) {
  const int64_t rows = repeated ? (n == 0 ? 0 : choices(n + r - 1, r)) : choices(n, r);
  Tensor out = empty_plain(Dims{rows, r}, {DType::Int64, Device{}}, "combinations");
  std::vector<int64_t> row(static_cast<size_t>(r));
  for (int64_t k = 0; k < r; ++k) row[k] = repeated ? 1 : k + 1;
  int64_t* to = out.elements<int64_t>();
  for (int64_t i = 0; i < rows; ++i, to += r) {
    if (i % kStopBlock == kStopBlock - 1) stop_if_requested();
    std::copy(row.begin(), row.end(), to);
    int64_t k = r - 1;
    while (k >= 0 && row[k] == (repeated ? n : n - r + k + 1)) --k;
    if (k < 0) break;
    ++row[k];
    for (int64_t j = k + 1; j < r; ++j) row[j] = repeated ? row[k] : row[j - 1] + 1;
  }
  return out;
}

}  // namespace

Tensor combinations_composite(const Tensor& x, int64_t r, bool with_replacement) {
  check(x.dim() == 1, "combinations: x has shape ", x.sizes(), ", and 1 dimension is expected");
  check(r >= 0 && r < (int64_t{1} << 20), "combinations: r ", r, " is no size of combinations");
  if (r == 0) return empty({0}, options_of(x));
  const Tensor chosen = chosen_positions(x.numel(), r, with_replacement);
  const Tensor positions = to(reshape(chosen, {-1}), std::nullopt, x.device());
  return reshape(index_select(x, 0, positions), chosen.sizes());
}

}  // namespace moonlet
