// tensor/cpu/reduce/reduce.h: the reduction engine: vectorised folds over runs and rows of floats,
// the Reducer that one kind of reduction implements, and `reduce_dims`, which brings any reduction
// to (outer, n, inner) passes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "tensor/core/tensor.h"
#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

// SumNumbers leaves out NaN.
enum class Fold { Sum, SumSquares, SumAbs, SumNumbers, Max, Min, Product };

// The fold of n numbers, 16-bit floats as float32, with several accumulators; Max and Min give NaN
// when one is there, and are with sums, which wrap, what there is for int64. Callers keep n below
// kRunLength, so that rounding errors do not grow with the whole length.
template <class In>
compute_t<In> fold_run(Fold kind, const In* x, int64_t n);
// acc[j] = fold of acc[j] and x[i * stride + j] for all i < rows, j < cols.
template <class In>
void fold_rows(Fold kind, compute_t<In>* acc, const In* x, int64_t rows, int64_t stride,
               int64_t cols);

// The extremes of n numbers, both NaN when one is; of none those that any number beats.
template <class T>
struct Extremes {
  T least, largest;
};
template <class In>
Extremes<compute_t<In>> extremes(const In* x, int64_t n);

// The sum of exp(x[i] - top), where no x[i] is NaN or above top.
template <class T>
T sum_exp(const T* x, int64_t n, T top);

// y[i] = log of the sum of exp over the n numbers from x + i n on, for so many rows; n is at most
// kShortRow.
inline constexpr int64_t kShortRow = thresholds::reduce::kShortRow;
void logsumexp_across(const float* x, int64_t rows, int64_t n, float* y);
void logsumexp_across(const double* x, int64_t rows, int64_t n, double* y);

inline constexpr int64_t kRunLength = thresholds::reduce::kRunLength;
inline constexpr int64_t kReduceColumns = thresholds::reduce::kColumns;

// One kind of reduction from one dtype. Elements and accumulators pass as bytes, so that the engine
// is compiled once.
class Reducer {
 public:
  virtual ~Reducer() = default;
  // acc[0, n) = what the reduction of nothing gives.
  virtual void start(void* acc, int64_t n) const = 0;
  // acc[i] = the reduction of x[i * n, (i + 1) * n) for all i < count.
  virtual void runs(const char* x, int64_t count, int64_t n, void* acc) const = 0;
  // acc[j] joined with x[i * stride + j] for all i < rows, j < cols; strides count elements.
  virtual void rows(void* acc, const char* x, int64_t rows, int64_t stride, int64_t cols) const = 0;
  // acc[j] joined with more[j] for all j < n.
  virtual void join(void* acc, const void* more, int64_t n) const = 0;
  // The reduction that joins this one's accumulators.
  virtual std::unique_ptr<Reducer> next() const = 0;

  DType input;  // the dtype of x
  DType acc;    // the dtype of the accumulators
};

// What is still to be done to n finished accumulators (divide a sum, take a root).
using Finish = std::function<void(void* acc, int64_t n)>;

// Reduces `dims` of x, whose dtype is r.input, and stores the results, converted, in y. y is
// contiguous and has x's shape without dims, or with 1 there. The work is cut into pieces that
// depend on the shape alone and partial results are joined in a fixed tree, so that the result is
// the same for any number of threads. Expanded dims are not read again and again.
void reduce_dims(const Reducer& r, const Tensor& x, const Dims& dims, Tensor& y,
                 const Finish& finish = {});

// The reduction of all of some elements that lie one behind the other, as reduce_dims computes it,
// for callers that have them a part at a time: run by run, and the runs joined at the end.
class RunFold {
 public:
  RunFold(std::unique_ptr<Reducer> reducer, Finish finish, int64_t numel);
  // Of the results of all runs, which the caller keeps.
  int64_t bytes() const;
  // The elements [first, first + count) at x; whole runs but for the last of all.
  void add(const char* x, int64_t first, int64_t count, char* runs) const;
  // Joins the runs into y, one element.
  void finish(char* runs, Tensor& y) const;

 private:
  const std::unique_ptr<Reducer> reducer_;
  const Finish finish_;
  const int64_t numel_;
};
// That of "sum", "mean", "amax" or "amin" of so many elements, from one dtype to another; null for
// another op.
std::unique_ptr<RunFold> run_fold_of(std::string_view op, DType from, DType to, int64_t numel);

// x with one element along each expanded dim of `dims`, and how often it stands there.
struct Unexpanded {
  Tensor x;
  int64_t times = 1;
};
Unexpanded unexpanded(const Tensor& x, const Dims& dims);

// How many elements of x meet in one result.
int64_t reduced_count(const Tensor& x, const Dims& dims);

}  // namespace moonlet::cpu
