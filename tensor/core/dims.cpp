// tensor/core/dims.cpp: shape arithmetic, with every product and sum checked for overflow.
#include "tensor/core/dims.h"

namespace moonlet {

void Dims::too_long() { fail("a tensor can have at most ", kMaxDims, " dimensions"); }

void Dims::insert(int at, int64_t value) {
  push_back(value);
  for (int i = count_ - 1; i > at; --i) values_[i] = values_[i - 1];
  values_[at] = value;
}

void Dims::erase(int at) {
  for (int i = at; i + 1 < count_; ++i) values_[i] = values_[i + 1];
  --count_;
}

void Dims::resize(int count, int64_t value) {
  while (count_ < count) push_back(value);
  count_ = count;
}

bool Dims::contains(int64_t value) const {
  for (int64_t v : *this)
    if (v == value) return true;
  return false;
}

static void append_list(std::string& out, const int64_t* values, size_t count) {
  out += '(';
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    append(out, values[i]);
  }
  out += count == 1 ? ",)" : ")";
}

void append(std::string& out, const Dims& dims) {
  append_list(out, dims.data(), static_cast<size_t>(dims.size()));
}

std::string text_of(const std::vector<int64_t>& list) {
  std::string out;
  append_list(out, list.data(), list.size());
  return out;
}

int64_t checked_mul(int64_t a, int64_t b, const char* what) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) fail(what, ": ", a, " x ", b, " is too large");
  return out;
}

int64_t checked_add(int64_t a, int64_t b, const char* what) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) fail(what, ": ", a, " + ", b, " is too large");
  return out;
}

int64_t numel_of(const Dims& sizes, const char* op) {
  constexpr int64_t kMaxElements = INT64_MAX / 16;
  int64_t count = 1;
  bool empty = false, overflow = false;
  for (int64_t size : sizes) {
    if (size < 0) fail(op, ": sizes cannot be negative, got ", sizes);
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size == 0 ? 1 : size, &count);
  }
  if (overflow || count > kMaxElements) fail(op, ": a tensor of shape ", sizes, " is too large");
  return empty ? 0 : count;
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = step;
    if (sizes[i] > 1) step *= sizes[i];
  }
  return strides;
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
  int64_t step = 1;
  bool dense = true;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    dense = dense && strides[i] == step;
    step *= sizes[i];
  }
  return dense;
}

Dims broadcast(const Dims& a, const Dims& b, const char* op) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  const int skip = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    const int64_t x = longer[skip + i], y = shorter[i];
    if (x == y || y == 1) continue;
    if (x != 1) fail(op, ": shapes ", a, " and ", b, " do not broadcast");
    out[skip + i] = y;
  }
  return out;
}

Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& to) {
  Dims out = Dims::filled(to.size(), 0);
  const int skip = to.size() - sizes.size();
  for (int i = 0; i < sizes.size(); ++i)
    out[skip + i] = (sizes[i] == 1 && to[skip + i] != 1) ? 0 : strides[i];
  return out;
}

bool can_expand(const Dims& from, const Dims& to) {
  const int skip = to.size() - from.size();
  if (skip < 0) return false;
  for (int i = 0; i < from.size(); ++i)
    if (from[i] != to[skip + i] && from[i] != 1) return false;
  return true;
}

int wrap_dim(int64_t dim, int rank, const char* op) {
  const int bound = rank == 0 ? 1 : rank;
  if (dim < -bound || dim >= bound) {
    fail(op, ": dim ", dim < 0 ? dim : dim + 1, " is out of range for a tensor of ", rank,
         rank == 1 ? " dimension" : " dimensions");
  }
  return static_cast<int>(dim < 0 ? dim + bound : dim);
}

Dims wrap_dims(const Dims& dims, int rank, const char* op) {
  Dims out;
  for (int64_t dim : dims) {
    const int wrapped = wrap_dim(dim, rank, op);
    if (out.contains(wrapped)) fail(op, ": dim ", wrapped + 1, " is named twice");
    out.push_back(wrapped);
  }
  // A tensor of no dimensions has none to name: what asks for the size of one must not see dim 1.
  return rank == 0 ? Dims{} : out;
}

Dims all_dims(int rank) {
  Dims out;
  for (int i = 0; i < rank; ++i) out.push_back(i);
  return out;
}

Dims wrap_dims_or_all(const Dims& dims, int rank, const char* op) {
  return dims.empty() ? all_dims(rank) : wrap_dims(dims, rank, op);
}

Dims wrap_given_or_all(const OptionalDims& dims, int rank, const char* op) {
  return dims.given() ? wrap_dims(dims, rank, op) : all_dims(rank);
}

}  // namespace moonlet
