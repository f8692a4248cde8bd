// tensor/core/dims.h: a short list of sizes, strides or dimensions kept inline (no heap), and the
// checked arithmetic on shapes: element counts, contiguous strides, broadcasting, dim wrapping.
#pragma once

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tensor/core/error.h"

namespace moonlet {

// The most dimensions a tensor can have.
inline constexpr int kMaxDims = 12;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  Dims(const int64_t* values, int count) {
    for (int i = 0; i < count; ++i) push_back(values[i]);
  }
  Dims(const Dims& other) { *this = other; }
  Dims& operator=(const Dims& other) {
    count_ = other.count_;
    for (int i = 0; i < count_; ++i) values_[i] = other.values_[i];
    return *this;
  }
  // `count` times `value`.
  static Dims filled(int count, int64_t value) {
    Dims out;
    for (int i = 0; i < count; ++i) out.push_back(value);
    return out;
  }

  int size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int64_t operator[](int i) const { return values_[i]; }
  int64_t& operator[](int i) { return values_[i]; }
  int64_t back() const { return values_[count_ - 1]; }
  int64_t& back() { return values_[count_ - 1]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + count_; }
  const int64_t* data() const { return values_; }

  // Throws when the list would pass kMaxDims.
  void push_back(int64_t value) {
    if (count_ == kMaxDims) [[unlikely]]
      too_long();
    values_[count_++] = value;
  }
  void insert(int at, int64_t value);
  void erase(int at);
  void resize(int count, int64_t value = 0);
  bool contains(int64_t value) const;
  bool operator==(const Dims& other) const {
    if (count_ != other.count_) return false;
    for (int i = 0; i < count_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

 private:
  [[noreturn, gnu::cold]] static void too_long();
  int count_ = 0;
  int64_t values_[kMaxDims];
};

// A list of dimensions that may be left out, which is not the same as an empty one: `{}` stands for
// none given, `Dims{}` for a list of no dimensions.
class OptionalDims : public Dims {
 public:
  OptionalDims() = default;
  OptionalDims(const Dims& dims) : Dims(dims), given_(true) {}
  OptionalDims(std::initializer_list<int64_t> dims) : Dims(dims), given_(true) {}
  bool given() const { return given_; }

 private:
  bool given_ = false;
};

// "(3, 4)", "(3,)" for one dimension, "()" for none.
void append(std::string& out, const Dims& dims);
// The same of a list of any length.
std::string text_of(const std::vector<int64_t>& list);

// a * b and a + b; throw `what` with the operands when the result leaves int64.
int64_t checked_mul(int64_t a, int64_t b, const char* what);
int64_t checked_add(int64_t a, int64_t b, const char* what);

// The number of elements. Throws on a negative size and when count * 16 bytes would leave int64,
// naming `op`.
int64_t numel_of(const Dims& sizes, const char* op);
// Row-major strides in elements.
Dims contiguous_strides(const Dims& sizes);
// Whether elements of this layout lie one after another in row-major order.
bool is_contiguous(const Dims& sizes, const Dims& strides);

// The shape both broadcast to, by the usual rule (align at the end, 1 stretches). Throws naming
// `op` and both shapes.
Dims broadcast(const Dims& a, const Dims& b, const char* op);
// Strides that read a tensor of `sizes`, `strides` as if it had shape `to` (0 where stretched).
Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& to);
// Whether `from` broadcasts to exactly `to`.
bool can_expand(const Dims& from, const Dims& to);

// Who wraps: the public ops (namespace moonlet), generated ones as well as composites, wrap the
// dims they are given. What they call (views::, raw::, shapes::, kernels, derivative formulas) gets
// dims from 0 to rank - 1, each named once, takes one by `wrapped`, and does not wrap again; C++
// that calls those directly wraps first.

// A 0-based dimension from one that may count from the end (-1 the last). Throws naming `op`; the
// message counts from 1 as scripts do. With rank 0, 0 and -1 are accepted.
int wrap_dim(int64_t dim, int rank, const char* op);
// The same for a list, rejecting repeats. With rank 0 the result is empty.
Dims wrap_dims(const Dims& dims, int rank, const char* op);
// A dimension that has been wrapped. Debug builds check it.
inline int wrapped(int64_t dim, int rank) {
  assert(dim >= 0 && dim < (rank == 0 ? 1 : rank));
  static_cast<void>(rank);
  return static_cast<int>(dim);
}
// 0 to rank - 1.
Dims all_dims(int rank);
// The wrapped list, or all dimensions where it is empty (the first) or not given (the second).
Dims wrap_dims_or_all(const Dims& dims, int rank, const char* op);
Dims wrap_given_or_all(const OptionalDims& dims, int rank, const char* op);

}  // namespace moonlet
