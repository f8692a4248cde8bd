// cuda/kernels/common/sorted_rows.cuh: what sort, topk, kthvalue and medians want of rows in their
// order.
#pragma once

#include "cuda/kernels/common/elements.cuh"

namespace moonlet::cuda {

// What is wanted of each sorted row: its first `count` elements, the one of a rank from 0, or a
// median.
enum class Which { First, Rank, Median, NanMedian };
struct Wanted {
  Which which;
  int64_t count;  // how many, or the rank
};

// Contiguous rows, what is wanted of them, and where it goes; `indices` may be null.
struct SortedRows {
  int64_t rows, size;
  Wanted wanted;
  bool may_hold_nan;
  Array x, values;
  int64_t* indices;

  template <class C>
  __device__ void put(int64_t row, int64_t at, int64_t from) const {
    values.set<C>(at, x.get<C>(row * size + from));
    if (indices) indices[at] = from + 1;
  }
  // The rank that is wanted of a row with so many elements that are numbers; the last of several.
  __device__ int64_t rank(int64_t numbers) const {
    if (wanted.which == Which::First) return wanted.count - 1;
    if (wanted.which == Which::Rank) return wanted.count;
    if (wanted.which == Which::Median && numbers < size) return numbers;
    return numbers > 0 ? (numbers - 1) / 2 : 0;
  }
};

}  // namespace moonlet::cuda
