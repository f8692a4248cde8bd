// tensor/core/geometry.h: collapses the dimensions over which one or several tensors are walked:
// fewer, longer ones that reach the same elements. Plans of pointwise calls, views and the kernels
// of every device are made by it.
#pragma once

#include <cstdint>
#include <utility>

namespace moonlet {

// Which end of a list of sizes is the innermost dimension, the one that is walked fastest.
enum class Innermost { First, Last };

// In what follows `sizes` are the `rank` sizes that all operands share, and `each(f)` calls
// f(strides) with those of each operand, of any unit and sign, 0 where it is broadcast. All are
// changed in place, and the number of dimensions that are left is returned.

template <class Each>
void move_dim(int64_t* sizes, const Each& each, int from, int to) {
  sizes[to] = sizes[from];
  each([&](int64_t* strides) { strides[to] = strides[from]; });
}

// Drops the dimensions of one element.
template <class Each>
int drop_ones(int rank, int64_t* sizes, const Each& each) {
  int kept = 0;
  for (int d = 0; d < rank; ++d)
    if (sizes[d] != 1) move_dim(sizes, each, d, kept++);
  return kept;
}

// Whether dimension a should lie outside b: by the first operand that has strides in both and they
// differ.
template <class Each>
bool is_outer(const Each& each, int a, int b) {
  int verdict = 0;
  each([&](const int64_t* strides) {
    if (verdict != 0 || strides[a] == 0 || strides[b] == 0) return;
    if (strides[a] != strides[b]) verdict = strides[a] > strides[b] ? 1 : -1;
  });
  return verdict > 0;
}

// Orders the dimensions by their strides, the smallest innermost.
template <Innermost kInnermost, class Each>
void sort_dims(int rank, int64_t* sizes, const Each& each) {
  constexpr bool kFirst = kInnermost == Innermost::First;
  for (int i = 1; i < rank; ++i) {
    for (int d = i; d > 0; --d) {
      if (!(kFirst ? is_outer(each, d - 1, d) : is_outer(each, d, d - 1))) break;
      std::swap(sizes[d - 1], sizes[d]);
      each([&](int64_t* strides) { std::swap(strides[d - 1], strides[d]); });
    }
  }
}

// Joins neighbours that every operand walks as one. Whether two join depends on these two alone, so
// the outcome is the same from either end.
template <Innermost kInnermost, class Each>
int join_dims(int rank, int64_t* sizes, const Each& each) {
  constexpr bool kFirst = kInnermost == Innermost::First;
  if (rank == 0) return 0;
  int last = 0;
  for (int d = 1; d < rank; ++d) {
    const int inner = kFirst ? last : d, outer = kFirst ? d : last;
    bool joins = true;
    each([&](const int64_t* strides) {
      joins = joins && strides[outer] == strides[inner] * sizes[inner];
    });
    if (!joins) {
      move_dim(sizes, each, d, ++last);
      continue;
    }
    sizes[last] *= sizes[d];
    if (!kFirst) each([&](int64_t* strides) { strides[last] = strides[d]; });
  }
  return last + 1;
}

// Drops dimensions of one element and joins those that lie in a row, in the order given.
template <Innermost kInnermost, class Each>
int collapse_dims(int rank, int64_t* sizes, const Each& each) {
  return join_dims<kInnermost>(drop_ones(rank, sizes, each), sizes, each);
}

// The same in the order of memory, in which more of them lie in a row.
template <Innermost kInnermost, class Each>
int collapse_sorted_dims(int rank, int64_t* sizes, const Each& each) {
  const int kept = drop_ones(rank, sizes, each);
  sort_dims<kInnermost>(kept, sizes, each);
  return join_dims<kInnermost>(kept, sizes, each);
}

}  // namespace moonlet
