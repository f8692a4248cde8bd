// autograd/composite/shape.cpp: shape ops made of other ops: reshaping, taking apart, putting
// together, padding with copies of the tensor, rolling.
#include <algorithm>

#include "autograd/history.h"
#include "autograd/uses_composite_shape.h"
#include "tensor/set.h"
#include "tensor/shapes/shape.h"
#include "tensor/views.h"

namespace moonlet {

// Reshaping.

Tensor reshape_composite(const Tensor& x, const Dims& size) {
  const Dims sizes = views::infer_sizes(size, x.numel(), "reshape");
  if (views::view_strides(x.sizes(), x.strides(), sizes)) return view(x, sizes);
  const Tensor y = view(contiguous(x), sizes);
  own_memory(y);
  return y;
}

Tensor flatten_composite(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  const int first = wrap_dim(start_dim, x.dim(), "flatten");
  const int last = wrap_dim(end_dim, x.dim(), "flatten");
  check(first <= last, "flatten: start_dim ", first + 1, " comes after end_dim ", last + 1);
  if (x.dim() == 0) return reshape(x, {1});
  Dims sizes;
  int64_t joined = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (d < first || d > last) {
      sizes.push_back(x.size(d));
      continue;
    }
    joined *= x.size(d);
    if (d == last) sizes.push_back(joined);
  }
  return reshape(x, sizes);
}

Tensor unflatten_composite(const Tensor& x, int64_t dim, const Dims& size) {
  check(x.dim() > 0, "unflatten: a tensor of shape () has no dimension to split");
  check(!size.empty(), "unflatten: wants at least one size");
  const int d = wrap_dim(dim, x.dim(), "unflatten");
  Dims sizes;
  for (int i = 0; i < d; ++i) sizes.push_back(x.size(i));
  for (int64_t part : views::infer_sizes(size, x.size(d), "unflatten")) sizes.push_back(part);
  for (int i = d + 1; i < x.dim(); ++i) sizes.push_back(x.size(i));
  return view(x, sizes);
}

Tensor narrow_composite(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  check(x.dim() > 0, "narrow: a tensor of shape () has no dimension to take from");
  const int d = wrap_dim(dim, x.dim(), "narrow");
  const int64_t size = x.size(d), first = start < 0 ? start + size : start;
  if (length < 0 || first < 0 || first > size || length > size - first) {
    fail("narrow: ", length, " positions from ", start < 0 ? start : start + 1, " on leave dim ",
         d + 1, " of size ", size);
  }
  return slice(x, d, first, first + length, 1);
}

Tensor as_strided_composite(const Tensor& x, const Dims& size, const Dims& stride,
                            std::optional<int64_t> offset) {
  return strided_view(x, size, taken_strides(size, stride), offset.value_or(x.offset()),
                      x.strides(), x.offset());
}

Tensor swapaxes_composite(const Tensor& x, int64_t dim0, int64_t dim1) {
  return transpose(x, dim0, dim1);
}

Tensor swapdims_composite(const Tensor& x, int64_t dim0, int64_t dim1) {
  return transpose(x, dim0, dim1);
}

Tensor movedim_composite(const Tensor& x, const Dims& source, const Dims& destination) {
  check(source.size() == destination.size(), "movedim: ", source.size(), " source dims and ",
        destination.size(), " destinations");
  const Dims from = wrap_dims(source, x.dim(), "movedim");
  const Dims to = wrap_dims(destination, x.dim(), "movedim");
  Dims order;
  int next = 0;
  for (int place = 0; place < x.dim(); ++place) {
    int moved = -1;
    for (int i = 0; i < to.size(); ++i)
      if (to[i] == place) moved = static_cast<int>(from[i]);
    if (moved < 0) {
      while (from.contains(next)) ++next;
      moved = next++;
    }
    order.push_back(moved);
  }
  return permute(x, order);
}

Tensor broadcast_to_composite(const Tensor& x, const Dims& size) { return expand(x, size); }
Tensor expand_as_composite(const Tensor& x, const Tensor& other) {
  return expand(x, other.sizes());
}
Tensor view_as_composite(const Tensor& x, const Tensor& other) { return view(x, other.sizes()); }
Tensor reshape_as_composite(const Tensor& x, const Tensor& other) {
  return reshape(x, other.sizes());
}

// Taking apart.

namespace {

std::vector<Tensor> split_evenly(const Tensor& x, int d, int64_t piece) {
  const int64_t size = x.size(d);
  check(piece > 0 || (piece == 0 && size == 0), "split: size must be at least 1, got ", piece);
  std::vector<Tensor> out;
  int64_t at = 0;
  do {
    const int64_t count = std::min(piece, size - at);
    out.push_back(slice(x, d, at, at + count, 1));
    at += count;
  } while (at < size);
  return out;
}

}  // namespace

std::vector<Tensor> split_composite(const Tensor& x, const std::vector<int64_t>& size,
                                    int64_t dim) {
  check(x.dim() > 0, "split: a tensor of shape () has no dimension to split");
  const int d = wrap_dim(dim, x.dim(), "split");
  if (size.size() == 1) return split_evenly(x, d, size[0]);
  int64_t sum = 0;
  for (int64_t piece : size) {
    check(piece >= 0, "split: sizes cannot be negative, got ", text_of(size));
    sum = checked_add(sum, piece, "split");
  }
  check(sum == x.size(d), "split: sizes ", text_of(size), " add up to ", sum, ", and dim ", d + 1,
        " has size ", x.size(d));
  std::vector<Tensor> out;
  int64_t at = 0;
  for (int64_t piece : size) {
    out.push_back(slice(x, d, at, at + piece, 1));
    at += piece;
  }
  return out;
}

std::vector<Tensor> chunk_composite(const Tensor& x, int64_t chunks, int64_t dim) {
  check(x.dim() > 0, "chunk: a tensor of shape () has no dimension to split");
  check(chunks > 0, "chunk: wants at least 1 chunk, got ", chunks);
  const int d = wrap_dim(dim, x.dim(), "chunk");
  const int64_t size = x.size(d);
  return split_evenly(x, d, std::max<int64_t>(1, size / chunks + (size % chunks != 0)));
}

std::vector<Tensor> unbind_composite(const Tensor& x, int64_t dim) {
  check(x.dim() > 0, "unbind: a tensor of shape () has no dimension to take apart");
  const int d = wrap_dim(dim, x.dim(), "unbind");
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.size(d); ++i) out.push_back(select(x, d, i));
  return out;
}

// Putting together.

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
  const auto place = [&](int i) { return swapped && i < 2 ? 1 - i : i; };
  Dims shape = Dims::filled(count, 1);
  for (int i = 0; i < count; ++i) {
    check(tensors[i].dim() <= 1, "meshgrid: tensor ", i + 1, " has shape ", tensors[i].sizes(),
          ", and at most 1 dimension is wanted");
    shape[place(i)] = tensors[i].numel();
  }
  std::vector<Tensor> out;
  for (int i = 0; i < count; ++i) {
    Dims line = Dims::filled(count, 1);
    line[place(i)] = tensors[i].numel();
    out.push_back(expand(reshape(tensors[i], line), shape));
  }
  return out;
}

namespace {

// Each block of x after dim `d - 1`, `times` times in a row.
Tensor repeat_blocks(const Tensor& x, int d, int joined, int64_t times) {
  Dims sizes = x.sizes();
  sizes.insert(d, times);
  Dims result = x.sizes();
  result[joined] = checked_mul(result[joined], times, "tile");
  numel_of(result, "tile");
  return reshape(expand(unsqueeze(x, d), sizes), result);
}

}  // namespace

Tensor tile_composite(const Tensor& x, const Dims& reps) {
  for (int64_t times : reps) check(times >= 0, "tile: repetitions cannot be negative, got ", reps);
  Dims sizes = x.sizes();
  while (sizes.size() < reps.size()) sizes.insert(0, 1);
  Tensor out = reshape(x, sizes);
  const int skip = sizes.size() - reps.size();
  for (int i = reps.size() - 1; i >= 0; --i)
    if (reps[i] != 1) out = repeat_blocks(out, skip + i, skip + i, reps[i]);
  return out.is_same(x) || &out.storage() == &x.storage() ? clone(out) : out;
}

Tensor repeat_interleave_composite(const Tensor& x, int64_t repeats, std::optional<int64_t> dim) {
  check(repeats >= 0, "repeat_interleave: repeats cannot be negative, got ", repeats);
  if (!dim || x.dim() == 0) return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
  const int d = wrap_dim(*dim, x.dim(), "repeat_interleave");
  const Tensor out = repeat_blocks(x, d + 1, d, repeats);
  return &out.storage() == &x.storage() ? clone(out) : out;
}

// Padding and rolling.

namespace {

// `x` with copies of itself before and after dimension d, neither count negative.
Tensor pad_with_copies(const Tensor& x, int d, int64_t before, int64_t after,
                       std::string_view mode) {
  const int64_t size = x.size(d);
  if (before == 0 && after == 0) return x;
  const int64_t limit = mode == "reflect" ? size - 1 : mode == "circular" ? size : INT64_MAX;
  check(size > 0 && before <= limit && after <= limit, "pad: (", before, ", ", after,
        ") is too much for ", mode, " padding of dim ", d + 1, " of shape ", x.sizes());
  const auto part = [&](int64_t from, int64_t to) { return slice(x, d, from, to, 1); };
  const auto edge = [&](int64_t at, int64_t count) {
    Dims sizes = x.sizes();
    sizes[d] = count;
    return expand(part(at, at + 1), sizes);
  };
  std::vector<Tensor> parts;
  if (mode == "reflect") {
    parts = {flip(part(1, before + 1), {d}), x, flip(part(size - 1 - after, size - 1), {d})};
  } else if (mode == "replicate") {
    parts = {edge(0, before), x, edge(size - 1, after)};
  } else {
    parts = {part(size - before, size), x, part(0, after)};
  }
  return cat(parts, d);
}

}  // namespace

Tensor pad_composite(const Tensor& x, const std::vector<int64_t>& pad, std::string_view mode,
                     Scalar value) {
  if (mode == "constant") return constant_pad(x, pad, value);
  check(mode == "reflect" || mode == "replicate" || mode == "circular",
        "pad: mode is \"constant\", \"reflect\", \"replicate\" or \"circular\", got \"", mode,
        "\"");
  shapes::check_pad(x, pad, "pad");
  Tensor out = x;
  for (int d = x.dim() - 1; d >= 0; --d) {
    const auto [before, after] = shapes::border(pad, d, x.dim());
    if (before < 0 || after < 0) {
      const int64_t first = std::max<int64_t>(-before, 0);
      out = slice(out, d, first, x.size(d) - std::max<int64_t>(-after, 0), 1);
    }
    out = pad_with_copies(out, d, std::max<int64_t>(before, 0), std::max<int64_t>(after, 0), mode);
  }
  return &out.storage() == &x.storage() ? clone(out) : out;
}

Tensor roll_composite(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const Dims named = wrap_dims(dims, x.dim(), "roll");
  check(!shifts.empty(), "roll: wants at least one shift, got an empty list");
  if (shifts.size() == 1 && dims.empty())
    return reshape(roll(reshape(x, {x.numel()}), shifts, {0}), x.sizes());
  check(shifts.size() == named.size(), "roll: ", shifts.size(), " shifts for ", named.size(),
        " dims");
  Tensor out = x;
  for (int i = 0; i < named.size(); ++i) {
    const int d = static_cast<int>(named[i]);
    const int64_t size = x.size(d);
    const int64_t shift = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (shift != 0)
      out = cat({slice(out, d, size - shift, size, 1), slice(out, d, 0, size - shift, 1)}, d);
  }
  return &out.storage() == &x.storage() ? clone(out) : out;
}

}  // namespace moonlet
