// tensor/core/views.cpp: the view ops: each works out sizes, strides and an offset, checks them
// against the arguments, and makes a tensor on the same storage.
#include "tensor/core/views.h"

#include <algorithm>
#include <numeric>

#include "tensor/core/geometry.h"

namespace moonlet::views {

namespace {

// A dimension or position as scripts count it.
int64_t shown(int64_t position) { return position < 0 ? position : position + 1; }

int existing(const Tensor& x, int64_t dim, const char* op) {
  check(x.dim() > 0, op, ": a tensor of shape () has no dimension to take from");
  return wrapped(dim, x.dim());
}

}  // namespace

Dims infer_sizes(const Dims& size, int64_t numel, const char* op) {
  Dims known = size;
  int open = -1;
  for (int i = 0; i < size.size(); ++i) {
    if (size[i] != -1) continue;
    check(open < 0, op, ": only one size can be -1, got ", size);
    open = i;
    known[i] = 1;
  }
  const int64_t count = numel_of(known, op);
  if (open >= 0) {
    check(count != 0, op, ": -1 in ", size, " stands for any size, since another size is 0");
    check(numel % count == 0, op, ": ", numel, " elements do not fit shape ", size);
    known[open] = numel / count;
  } else {
    check(count == numel, op, ": ", numel, " elements do not fit shape ", size);
  }
  return known;
}

std::optional<Dims> view_strides(const Dims& sizes, const Dims& strides, const Dims& to) {
  for (int64_t size : sizes)
    if (size == 0) return contiguous_strides(to);
  // Runs of dimensions that one stride walks through. A dimension of the new shape, from the last,
  // can only lie within one of them.
  Dims run_size = sizes, run_stride = strides;
  int run = collapse_dims<Innermost::Last>(sizes.size(), &run_size[0],
                                           [&](auto&& f) { f(&run_stride[0]); });
  Dims out = Dims::filled(to.size(), 1);
  int64_t left = 1, step = 1;
  for (int i = to.size() - 1; i >= 0; --i) {
    if (to[i] != 1 && left == 1) {
      if (run == 0) return std::nullopt;
      left = run_size[--run];
      step = run_stride[run];
    }
    out[i] = step;
    if (left % to[i] != 0) return std::nullopt;
    left /= to[i];
    step *= to[i];
  }
  return out;
}

Range resolve_range(int64_t size, int64_t start, int64_t stop, int64_t step, int dim,
                    const char* op) {
  check(step > 0, op, ": step must be at least 1, got ", step);
  const int64_t first = start < 0 ? start + size : start;
  const int64_t end = stop < 0 ? stop + size + 1 : stop;
  if (first < 0 || first > size || end < 0 || end > size) {
    fail(op, ": positions ", shown(start), " to ", stop, " leave dim ", dim + 1, " of size ", size);
  }
  check(first <= end, op, ": positions ", shown(start), " to ", stop, " of dim ", dim + 1,
        " run backwards");
  const int64_t length = end - first;
  return {first, length == 0 ? 0 : (length - 1) / step + 1};
}

Tensor view(const Tensor& x, const Dims& size) {
  const Dims sizes = infer_sizes(size, x.numel(), "view");
  const std::optional<Dims> strides = view_strides(x.sizes(), x.strides(), sizes);
  check(strides.has_value(), "view: a tensor of shape ", x.sizes(), " and strides ", x.strides(),
        " cannot be seen as ", sizes, " without a copy; use reshape");
  return alias(x, sizes, *strides, x.offset());
}

Dims memory_order(const Tensor& dense) {
  int order[kMaxDims];
  std::iota(order, order + dense.dim(), 0);
  std::stable_sort(order, order + dense.dim(),
                   [&](int a, int b) { return dense.stride(a) > dense.stride(b); });
  Dims out;
  for (int d = 0; d < dense.dim(); ++d) out.push_back(order[d]);
  return out;
}

Tensor strided_view(const Tensor& x, const Dims& size, const Dims& stride, int64_t offset,
                    const Dims&, int64_t x_offset) {
  for (int64_t step : stride)
    check(step >= 0, "as_strided: strides cannot be negative, got ", stride);
  check(offset >= 0, "as_strided: offset must be at least 0, got ", offset);
  // x may stand for the tensor the offset was given for, laid out alike elsewhere.
  return view_of(x.storage(), size, stride, offset - x_offset + x.offset(), x.dtype(),
                 "as_strided");
}

Tensor expand(const Tensor& x, const Dims& size) {
  Dims to = size;
  const int added = size.size() - x.dim();
  for (int i = 0; i < to.size(); ++i) {
    if (to[i] != -1) continue;
    check(i >= added, "expand: -1 keeps a size, but dim ", i + 1, " of ", size,
          " is new to a tensor of shape ", x.sizes());
    to[i] = x.size(i - added);
  }
  check(can_expand(x.sizes(), to), "expand: shape ", x.sizes(), " does not expand to ", size);
  numel_of(to, "expand");
  return alias(x, to, broadcast_strides(x.sizes(), x.strides(), to), x.offset());
}

Tensor permute(const Tensor& x, const Dims& dims) {
  check(dims.size() == x.dim(), "permute: ", dims.size(), " dims named for a tensor of shape ",
        x.sizes());
  Dims sizes, strides;
  for (int64_t d : dims) {
    sizes.push_back(x.size(static_cast<int>(d)));
    strides.push_back(x.stride(static_cast<int>(d)));
  }
  return part_of(x, sizes, strides, x.offset());
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  const int a = wrapped(dim0, x.dim()), b = wrapped(dim1, x.dim());
  Dims sizes = x.sizes(), strides = x.strides();
  if (a != b) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return part_of(x, sizes, strides, x.offset());
}

Tensor t(const Tensor& x) {
  check(x.dim() <= 2, "t: wants at most 2 dimensions, got shape ", x.sizes(), "; use transpose");
  return x.dim() == 2 ? transpose(x, 0, 1) : part_of(x, x.sizes(), x.strides(), x.offset());
}

Tensor squeeze(const Tensor& x, const Dims& dims) {
  Dims sizes, strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (x.size(d) == 1 && dims.contains(d)) continue;
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  return part_of(x, sizes, strides, x.offset());
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  const int at = wrapped(dim, x.dim() + 1);
  Dims sizes = x.sizes(), strides = x.strides();
  const int64_t step = at < x.dim() ? x.size(at) * x.stride(at) : 1;
  sizes.insert(at, 1);
  strides.insert(at, step);
  return alias(x, sizes, strides, x.offset());
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  const int d = existing(x, dim, "select");
  const int64_t size = x.size(d);
  check(index >= -size && index < size, "select: index ", shown(index), " is out of range for dim ",
        d + 1, " of size ", size);
  const int64_t at = index < 0 ? index + size : index;
  Dims sizes = x.sizes(), strides = x.strides();
  sizes.erase(d);
  strides.erase(d);
  return part_of(x, sizes, strides, x.offset() + at * x.stride(d));
}

Tensor select_first(const Tensor& x, const Dims& indices) {
  Dims sizes, strides;
  int64_t offset = x.offset();
  for (int d = 0; d < x.dim(); ++d) {
    if (d < indices.size()) {
      offset += indices[d] * x.stride(d);
    } else {
      sizes.push_back(x.size(d));
      strides.push_back(x.stride(d));
    }
  }
  return part_of(x, sizes, strides, offset);
}

Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  const int d = existing(x, dim, "slice");
  const Range range = resolve_range(x.size(d), start, stop, step, d, "slice");
  Dims sizes = x.sizes(), strides = x.strides();
  sizes[d] = range.count;
  // With one position or none the stride is never used, and a large step must not overflow it.
  if (range.count > 1) strides[d] *= step;
  const int64_t skip = range.count == 0 ? 0 : range.start * x.stride(d);
  return part_of(x, sizes, strides, x.offset() + skip);
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  check(x.dim() >= 2, "diagonal: wants at least 2 dimensions, got shape ", x.sizes());
  const int a = wrapped(dim1, x.dim()), b = wrapped(dim2, x.dim());
  check(a != b, "diagonal: both dims are ", a + 1, ", and they must differ");
  const int64_t rows = x.size(a), cols = x.size(b);
  const int64_t right = std::clamp<int64_t>(offset, 0, cols);
  const int64_t down = -std::clamp<int64_t>(offset, -rows, 0);
  const int64_t count = std::min(rows - down, cols - right);
  const int64_t skip = count == 0 ? 0 : right * x.stride(b) + down * x.stride(a);
  Dims sizes = x.sizes(), strides = x.strides();
  for (int d : {std::max(a, b), std::min(a, b)}) {
    sizes.erase(d);
    strides.erase(d);
  }
  sizes.push_back(count);
  strides.push_back(x.stride(a) + x.stride(b));
  return alias(x, sizes, strides, x.offset() + skip);
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  const int d = existing(x, dim, "unfold");
  check(size >= 0 && size <= x.size(d), "unfold: windows of size ", size, " do not fit dim ", d + 1,
        " of size ", x.size(d));
  check(step > 0, "unfold: step must be at least 1, got ", step);
  Dims sizes = x.sizes(), strides = x.strides();
  sizes[d] = (x.size(d) - size) / step + 1;
  if (sizes[d] > 1) strides[d] *= step;
  sizes.push_back(size);
  strides.push_back(x.stride(d));
  return alias(x, sizes, strides, x.offset());
}

namespace {

// Several elements of x as one of `dtype`, which is `times` as large.
Tensor joined_elements(const Tensor& x, DType dtype, int64_t times) {
  check(x.dim() > 0 && x.size(-1) % times == 0 && (x.stride(-1) == 1 || x.numel() == 0),
        "view: the last dimension of shape ", x.sizes(), " and strides ", x.strides(),
        " does not hold whole elements of ", dtype, " side by side");
  Dims sizes = x.sizes(), strides = x.strides();
  bool aligned = x.offset() % times == 0;
  for (int d = 0; d + 1 < x.dim(); ++d) {
    aligned = aligned && (strides[d] % times == 0 || sizes[d] <= 1);
    strides[d] /= times;
  }
  check(aligned, "view: strides ", x.strides(), " and offset ", x.offset(), " of ", x.dtype(),
        " do not fall on whole elements of ", dtype);
  sizes.back() /= times;
  return view_of(x.storage(), sizes, strides, x.offset() / times, dtype, "view");
}

}  // namespace

Tensor view_as_dtype(const Tensor& x, DType dtype) {
  const auto from = static_cast<int64_t>(size_of(x.dtype()));
  const auto to = static_cast<int64_t>(size_of(dtype));
  if (from == to) return view_of(x.storage(), x.sizes(), x.strides(), x.offset(), dtype, "view");
  if (from < to) return joined_elements(x, dtype, to / from);
  const int64_t parts = from / to;
  check(x.dim() > 0 && (x.stride(-1) == 1 || x.numel() == 0 || x.size(-1) == 1),
        "view: the last dimension of shape ", x.sizes(), " and strides ", x.strides(),
        " cannot be split into elements of ", dtype);
  Dims sizes = x.sizes(), strides = x.strides();
  for (int d = 0; d < x.dim(); ++d) strides[d] *= parts;
  strides.back() = 1;
  sizes.back() = checked_mul(sizes.back(), parts, "view");
  return view_of(x.storage(), sizes, strides, x.offset() * parts, dtype, "view");
}

Tensor view_as_real(const Tensor& x) {
  check(is_complex(x.dtype()), "view_as_real: wants a complex tensor, got ", x.dtype());
  Dims sizes = x.sizes(), strides = x.strides();
  for (int d = 0; d < x.dim(); ++d) strides[d] *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return view_of(x.storage(), sizes, strides, 2 * x.offset(), real_of(x.dtype()), "view_as_real");
}

Tensor view_as_complex(const Tensor& x) {
  check(x.dtype() == DType::Float32 || x.dtype() == DType::Float64,
        "view_as_complex: wants float32 or float64, got ", x.dtype());
  check(x.dim() > 0 && x.size(-1) == 2,
        "view_as_complex: wants a last dimension of size 2 (real, imaginary), got shape ",
        x.sizes());
  Dims sizes = x.sizes(), strides = x.strides();
  const int last = x.dim() - 1;
  bool aligned = x.offset() % 2 == 0 && (x.numel() == 0 || strides[last] == 1);
  for (int d = 0; d < last; ++d) {
    aligned = aligned && (strides[d] % 2 == 0 || sizes[d] <= 1);
    strides[d] /= 2;
  }
  check(aligned, "view_as_complex: the pairs do not lie side by side in a tensor of shape ",
        x.sizes(), " and strides ", x.strides(), "; call contiguous first");
  sizes.erase(last);
  strides.erase(last);
  return view_of(x.storage(), sizes, strides, x.offset() / 2, complex_of(x.dtype()),
                 "view_as_complex");
}

}  // namespace moonlet::views
