// autograd/sparse_rows.h: the gradient of an embedding's weight as the rows that were used, where a
// dense one would be zeros for the most part. No op takes it: leaves keep it, optimisers read it.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet {

// The rows of a gradient of shape `sizes`, (rows, features); what is in no row is 0.
struct SparseRows {
  Tensor positions;  // (n), int64, from 1
  Tensor values;     // (n, features); rows of one position add up
  Dims sizes;
  bool coalesced = false;  // each position comes once, in rising order

  // The same as one tensor, which shares no memory with it.
  Tensor to_dense() const;
  // With each position once; the same memory when it is so already.
  SparseRows coalesce() const;
  // With memory of its own.
  SparseRows clone() const;
};

// The rows of g (..., features) at the positions in `index` (...), without those at `padding_idx`.
// The values may share g's memory.
SparseRows rows_at(const Tensor& g, const Tensor& index, const Dims& sizes, int64_t padding_idx);
// The rows of all, one after the other; of one the same memory.
SparseRows joined(const std::vector<SparseRows>& parts);

// Rows that a leaf and scripts share, on any thread: all see what one of them makes of it.
class SharedRows {
 public:
  explicit SharedRows(SparseRows rows) : rows_(std::move(rows)) {}
  SparseRows get() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  void set(SparseRows rows) {
    const std::lock_guard lock(mutex_);
    std::swap(rows_, rows);  // the old ones end after the lock
  }

 private:
  mutable std::mutex mutex_;
  SparseRows rows_;
};

}  // namespace moonlet
