// autograd/composite/shape.cpp: shape ops made of other ops: reshaping, taking apart, padding with
// copies of the tensor, rolling, turning.
#include <algorithm>

#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_shape.h"
#include "tensor/core/set.h"
#include "tensor/core/views.h"
#include "tensor/shapes/shape.h"
#include "tensor/shapes_shape.h"

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

Tensor unflatten_composite(const Tensor& x, int64_t dim, const Dims& sizes) {
  check(x.dim() > 0, "unflatten: a tensor of shape () has no dimension to split");
  check(!sizes.empty(), "unflatten: wants at least one size");
  const int d = wrap_dim(dim, x.dim(), "unflatten");
  Dims all;
  for (int i = 0; i < d; ++i) all.push_back(x.size(i));
  for (int64_t part : views::infer_sizes(sizes, x.size(d), "unflatten")) all.push_back(part);
  for (int i = d + 1; i < x.dim(); ++i) all.push_back(x.size(i));
  return view(x, all);
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

Tensor narrow_from_composite(const Tensor& x, int64_t dim, const Tensor& start, int64_t length) {
  check(start.numel() == 1, "narrow: start has shape ", start.sizes(), "; one position expected");
  const int64_t at = host_value<int64_t>(start);
  check(at != 0, "narrow: start 0: positions start at 1");
  return narrow(x, dim, at > 0 ? at - 1 : at, length);
}

Tensor narrow_copy_composite(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return clone(narrow(x, dim, start, length));
}

Tensor adjoint_composite(const Tensor& x) {
  check(x.dim() >= 2, "adjoint: x has shape ", x.sizes(), "; at least 2 dimensions expected");
  return conj(transpose(x, -2, -1));
}

Tensor as_strided_composite(const Tensor& x, const Dims& size, const Dims& stride,
                            std::optional<int64_t> offset) {
  return strided_view(x, size, taken_strides(size, stride), offset.value_or(x.offset()),
                      x.strides(), x.offset());
}

Tensor movedim_composite(const Tensor& x, const Dims& source, const Dims& destination) {
  check(source.size() == destination.size(), "movedim: ", source.size(), " source dims and ",
        destination.size(), " destinations");
  const Dims from = wrap_dims(source, x.dim(), "movedim");
  const Dims to = wrap_dims(destination, x.dim(), "movedim");
  Dims order;
  int next = 0;
  for (int position = 0; position < x.dim(); ++position) {
    int moved = -1;
    for (int i = 0; i < to.size(); ++i)
      if (to[i] == position) moved = static_cast<int>(from[i]);
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

std::vector<Tensor> split_composite(const Tensor& x, int64_t size, int64_t dim) {
  check(x.dim() > 0, "split: a tensor of shape () has no dimension to split");
  return split_evenly(x, wrap_dim(dim, x.dim(), "split"), size);
}

std::vector<Tensor> split_with_sizes_composite(const Tensor& x, const std::vector<int64_t>& size,
                                               int64_t dim) {
  check(x.dim() > 0, "split: a tensor of shape () has no dimension to split");
  const int d = wrap_dim(dim, x.dim(), "split");
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
  // Nothing makes as many pieces as are asked for.
  if (size == 0) return tensor_split(x, chunks, d);
  return split_evenly(x, d, size / chunks + (size % chunks != 0));
}

std::vector<Tensor> tensor_split_composite(const Tensor& x, int64_t sections, int64_t dim) {
  check(x.dim() > 0, "tensor_split: a tensor of shape () has no dimension to split");
  check(sections > 0, "tensor_split: wants at least 1 piece, got ", sections);
  const int d = wrap_dim(dim, x.dim(), "tensor_split");
  const int64_t size = x.size(d), least = size / sections, larger = size % sections;
  constexpr int64_t kMostEmpty = 1 << 16;
  check(sections <= std::max(size, kMostEmpty), "tensor_split: ", sections, " pieces of dim ",
        d + 1, " of size ", size, " are too many");
  std::vector<Tensor> out;
  for (int64_t i = 0, at = 0; i < sections; ++i) {
    const int64_t end = at + least + (i < larger ? 1 : 0);
    out.push_back(slice(x, d, at, end, 1));
    at = end;
  }
  return out;
}

std::vector<Tensor> tensor_split_at_composite(const Tensor& x, const std::vector<int64_t>& starts,
                                              int64_t dim) {
  check(x.dim() > 0, "tensor_split: a tensor of shape () has no dimension to split");
  const int d = wrap_dim(dim, x.dim(), "tensor_split");
  const int64_t size = x.size(d);
  // A position outside stands for the nearest end, and a piece that would run backwards is empty.
  const auto inside = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 && at >= -size ? at + size : at, 0, size);
  };
  std::vector<Tensor> out;
  int64_t from = 0;
  for (int64_t start : starts) {
    const int64_t next = inside(start);
    out.push_back(slice(x, d, from, std::max(from, next), 1));
    from = next;
  }
  out.push_back(slice(x, d, from, size, 1));
  return out;
}

std::vector<Tensor> tensor_split_by_composite(const Tensor& x, const Tensor& given, int64_t dim) {
  check(given.dim() <= 1, "tensor_split: indices_or_sections has shape ", given.sizes(),
        "; at most one dimension expected");
  if (given.dim() == 0) return tensor_split(x, host_value<int64_t>(given), dim);
  const Tensor host = contiguous(on_host(given, DType::Int64));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < host.numel(); ++i) {
    const int64_t at = host.data<int64_t>()[i];
    check(at != 0, "tensor_split: position 0: positions start at 1");
    starts.push_back(at > 0 ? at - 1 : at);
  }
  return tensor_split_at(x, starts, dim);
}

namespace {

// The dimension that hsplit, vsplit and dsplit cut, as `least` dimensions are there or not.
int split_dim(const Tensor& x, const char* op, int least, int dim) {
  check(x.dim() >= least, op, ": x has shape ", x.sizes(), "; at least ", least, " dimension",
        least == 1 ? "" : "s", " expected");
  return dim == 1 && x.dim() == 1 ? 0 : dim;
}

std::vector<Tensor> split_equally(const Tensor& x, const char* op, int least, int dim,
                                  int64_t pieces) {
  const int d = split_dim(x, op, least, dim);
  check(pieces > 0 && x.size(d) % pieces == 0, op, ": dim ", d + 1, " of size ", x.size(d),
        " cannot be cut into ", pieces, " equal pieces");
  return tensor_split(x, pieces, d);
}

}  // namespace

std::vector<Tensor> hsplit_composite(const Tensor& x, int64_t pieces) {
  return split_equally(x, "hsplit", 1, 1, pieces);
}
std::vector<Tensor> hsplit_at_composite(const Tensor& x, const std::vector<int64_t>& starts) {
  return tensor_split_at(x, starts, split_dim(x, "hsplit", 1, 1));
}
std::vector<Tensor> vsplit_composite(const Tensor& x, int64_t pieces) {
  return split_equally(x, "vsplit", 2, 0, pieces);
}
std::vector<Tensor> vsplit_at_composite(const Tensor& x, const std::vector<int64_t>& starts) {
  return tensor_split_at(x, starts, split_dim(x, "vsplit", 2, 0));
}
std::vector<Tensor> dsplit_composite(const Tensor& x, int64_t pieces) {
  return split_equally(x, "dsplit", 3, 2, pieces);
}
std::vector<Tensor> dsplit_at_composite(const Tensor& x, const std::vector<int64_t>& starts) {
  return tensor_split_at(x, starts, split_dim(x, "dsplit", 3, 2));
}

std::vector<Tensor> unbind_composite(const Tensor& x, int64_t dim) {
  check(x.dim() > 0, "unbind: a tensor of shape () has no dimension to take apart");
  const int d = wrap_dim(dim, x.dim(), "unbind");
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.size(d); ++i) out.push_back(select(x, d, i));
  return out;
}

// Padding and rolling.

namespace {

// How many positions a padding adds before and behind each dimension; where it cuts that is none.
struct Added {
  Added(const std::vector<int64_t>& pad, int rank) {
    for (int d = 0; d < rank; ++d) {
      const auto [first, last] = shapes::border(pad, d, rank);
      before.push_back(std::max<int64_t>(first, 0));
      after.push_back(std::max<int64_t>(last, 0));
    }
  }
  bool any(int d) const { return before[d] > 0 || after[d] > 0; }
  Dims before, after;
};

// Throws where x has not what is to be copied around it.
void check_copies(const Tensor& x, const Added& added, std::string_view mode) {
  for (int d = x.dim() - 1; d >= 0; --d) {
    const int64_t size = x.size(d), before = added.before[d], after = added.after[d];
    const int64_t limit = mode == "reflect" ? size - 1 : mode == "circular" ? size : INT64_MAX;
    check(!added.any(d) || (size > 0 && before <= limit && after <= limit), "pad: (", before, ", ",
          after, ") is too much for ", mode, " padding of dim ", d + 1, " of shape ", x.sizes());
  }
}

// What a padding puts before and behind x in dimension d, neither count negative.
std::pair<Tensor, Tensor> copies_around(const Tensor& x, int d, int64_t before, int64_t after,
                                        std::string_view mode) {
  const int64_t size = x.size(d);
  const auto part = [&](int64_t from, int64_t to) { return slice(x, d, from, to, 1); };
  const auto edge = [&](int64_t at, int64_t count) {
    Dims sizes = x.sizes();
    sizes[d] = count;
    return expand(part(at, at + 1), sizes);
  };
  if (mode == "reflect")
    return {flip(part(1, before + 1), {d}), flip(part(size - 1 - after, size - 1), {d})};
  if (mode == "replicate") return {edge(0, before), edge(size - 1, after)};
  return {part(size - before, size), part(0, after)};
}

Tensor pad_recorded(Tensor x, const Added& added, std::string_view mode) {
  for (int d = x.dim() - 1; d >= 0; --d) {
    if (!added.any(d)) continue;
    const auto [first, last] = copies_around(x, d, added.before[d], added.after[d], mode);
    x = cat({first, x, last}, d);
  }
  return x;
}

// The same without a tape: each dimension's border is copied from what is there of the result.
Tensor pad_plain(const Tensor& x, const Added& added, std::string_view mode) {
  std::vector<int64_t> pad;
  for (int d = x.dim() - 1; d >= 0; --d) {
    pad.push_back(added.before[d]);
    pad.push_back(added.after[d]);
  }
  const Tensor y = allocate(shapes::constant_pad(x, pad, int64_t{0}), "pad");
  std::vector<Tensor> narrowed = {y};  // by the borders of the first dimensions
  for (int d = 0; d < x.dim(); ++d)
    narrowed.push_back(slice(narrowed[d], d, added.before[d], added.before[d] + x.size(d), 1));
  copy_(narrowed.back(), x);
  for (int d = x.dim() - 1; d >= 0; --d) {
    if (!added.any(d)) continue;
    const int64_t before = added.before[d], after = added.after[d], end = before + x.size(d);
    const auto [first, last] = copies_around(narrowed[d + 1], d, before, after, mode);
    Tensor front = slice(narrowed[d], d, 0, before, 1);
    Tensor back = slice(narrowed[d], d, end, end + after, 1);
    copy_(front, first);
    copy_(back, last);
  }
  return y;
}

}  // namespace

namespace {

// Where a negative padding cuts all of a dimension, and the other side adds to it, there are copies
// of the last element that was cut: x of one element along the dimension, and `pad` for that.
Tensor with_last_cut(Tensor x, std::vector<int64_t>& pad) {
  for (size_t i = 0; i + 1 < pad.size() && i / 2 < static_cast<size_t>(x.dim()); i += 2) {
    const int d = x.dim() - 1 - static_cast<int>(i / 2);
    const int64_t size = x.size(d), before = pad[i], after = pad[i + 1];
    const int64_t length = checked_add(checked_add(size, before, "pad"), after, "pad");
    if (size == 0 || length < 1 || (before > -size && after > -size)) continue;
    const int64_t at = before < 0 ? size - 1 : 0;
    x = slice(x, d, at, at + 1, 1);
    pad[i] = 0;
    pad[i + 1] = length - 1;
  }
  return x;
}

}  // namespace

Tensor pad_composite(const Tensor& given, const std::vector<int64_t>& borders,
                     std::string_view mode, Scalar value) {
  std::vector<int64_t> pad = borders;
  const Tensor x = mode == "replicate" && pad.size() % 2 == 0 ? with_last_cut(given, pad) : given;
  if (mode == "constant") return constant_pad(x, pad, value);
  check(mode == "reflect" || mode == "replicate" || mode == "circular",
        "pad: mode is \"constant\", \"reflect\", \"replicate\" or \"circular\", got \"", mode,
        "\"");
  shapes::check_pad(x, pad, "pad");
  Tensor cut = x;
  for (int d = 0; d < x.dim(); ++d) {
    const auto [before, after] = shapes::border(pad, d, x.dim());
    const int64_t first = std::max<int64_t>(-before, 0);
    if (before < 0 || after < 0)
      cut = slice(cut, d, first, x.size(d) - std::max<int64_t>(-after, 0), 1);
  }
  const Added added(pad, x.dim());
  check_copies(cut, added, mode);
  if (!is_differentiated(x)) return pad_plain(cut, added, mode);
  const Tensor out = pad_recorded(cut, added, mode);
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

// Turning.

Tensor fliplr_composite(const Tensor& x) {
  check(x.dim() >= 2, "fliplr: x has shape ", x.sizes(), "; at least 2 dimensions expected");
  return flip(x, {1});
}

Tensor flipud_composite(const Tensor& x) {
  check(x.dim() >= 1, "flipud: x has shape (); at least 1 dimension expected");
  return flip(x, {0});
}

Tensor rot90_composite(const Tensor& x, int64_t k, const Dims& dims) {
  check(dims.size() == 2, "rot90: ", dims.size(), " dims named, and 2 are expected");
  check(x.dim() >= 2, "rot90: x has shape ", x.sizes(), "; at least 2 dimensions expected");
  const Dims plane = wrap_dims(dims, x.dim(), "rot90");
  switch ((k % 4 + 4) % 4) {
    case 1: return transpose(flip(x, {plane[1]}), plane[0], plane[1]);
    case 2: return flip(x, plane);
    case 3: return transpose(flip(x, {plane[0]}), plane[0], plane[1]);
    default: return clone(x);
  }
}

}  // namespace moonlet
