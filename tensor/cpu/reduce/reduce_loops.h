// tensor/cpu/reduce/reduce_loops.h: Reducers made of a functor. Elements of other dtypes are
// converted to the functor's, a block at a time, so that there is one loop per functor and not one
// per dtype.
#pragma once

#include <algorithm>
#include <limits>

#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/reduce/reduce.h"

namespace moonlet::cpu {

// A functor F has: In and Acc; Acc start(); Acc run(const In*, n); void rows(Acc*, const In*, rows,
// stride, cols); Acc join(Acc, Acc); and next(), the functor that joins Acc values.
template <class F>
class Loops final : public Reducer {
  using In = typename F::In;
  using Acc = typename F::Acc;
  static constexpr int64_t kSize = sizeof(In);

 public:
  Loops(F f, DType from) : f_(f) {
    input = from;
    acc = dtype_of<Acc>;
    if (from != dtype_of<In>) convert_ = converter(from, dtype_of<In>);
    step_ = static_cast<int64_t>(size_of(from));
  }
  void start(void* to, int64_t n) const override {
    std::fill_n(static_cast<Acc*>(to), n, f_.start());
  }
  void runs(const char* x, int64_t count, int64_t n, void* to) const override {
    Acc* out = static_cast<Acc*>(to);
    if (!convert_) {
      const In* from = reinterpret_cast<const In*>(x);
      for (int64_t i = 0; i < count; ++i) out[i] = f_.run(from + i * n, n);
      return;
    }
    In block[kBlock];
    const int64_t group = std::max<int64_t>(1, kBlock / n);
    for (int64_t i = 0; i < count; i += group) {
      const int64_t many = std::min(group, count - i);
      if (n > kBlock) {
        out[i] = long_run(x + i * n * step_, n, block);
        continue;
      }
      convert_(x + i * n * step_, step_, reinterpret_cast<char*>(block), kSize, many * n);
      for (int64_t k = 0; k < many; ++k) out[i + k] = f_.run(block + k * n, n);
    }
  }
  void rows(void* to, const char* x, int64_t rows, int64_t stride, int64_t cols) const override {
    Acc* out = static_cast<Acc*>(to);
    if (!convert_) return f_.rows(out, reinterpret_cast<const In*>(x), rows, stride, cols);
    In block[kReduceColumns];
    for (int64_t i = 0; i < rows; ++i) {
      convert_(x + i * stride * step_, step_, reinterpret_cast<char*>(block), kSize, cols);
      f_.rows(out, block, 1, 0, cols);
    }
  }
  void join(void* to, const void* more, int64_t n) const override {
    Acc* a = static_cast<Acc*>(to);
    const Acc* b = static_cast<const Acc*>(more);
    for (int64_t j = 0; j < n; ++j) a[j] = f_.join(a[j], b[j]);
  }
  std::unique_ptr<Reducer> next() const override {
    return std::make_unique<Loops<decltype(f_.next())>>(f_.next(), acc);
  }

 private:
  static constexpr int64_t kBlock = thresholds::reduce::kConvertedBlock;

  Acc long_run(const char* x, int64_t n, In* block) const {
    Acc out = f_.start();
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t some = std::min(kBlock, n - at);
      convert_(x + at * step_, step_, reinterpret_cast<char*>(block), kSize, some);
      out = f_.join(out, f_.run(block, some));
    }
    return out;
  }

  F f_;
  Converter convert_ = nullptr;
  int64_t step_ = 0;
};

// The vectorised functor for floats, of which those of 16 bits are folded as float32, and for sums
// and extremes of int64.
template <class From>
struct Fast {
  using In = From;
  using T = compute_t<From>;
  using Acc = T;
  Fold kind;
  Fast<T> next() const { return {joins_by_adding() ? Fold::Sum : kind}; }
  bool joins_by_adding() const {
    return kind == Fold::SumSquares || kind == Fold::SumAbs || kind == Fold::SumNumbers;
  }
  T start() const {
    using Limits = std::numeric_limits<T>;
    constexpr T kMost = Limits::has_infinity ? Limits::infinity() : Limits::max();
    constexpr T kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    switch (kind) {
      case Fold::Max: return kLeast;
      case Fold::Min: return kMost;
      case Fold::Product: return T(1);
      default: return T(0);
    }
  }
  T join(T a, T b) const {
    switch (kind) {
      // Without branches, which nobody could foretell.
      case Fold::Max: return static_cast<int>(a >= b) | static_cast<int>(a != a) ? a : b;
      case Fold::Min: return static_cast<int>(a <= b) | static_cast<int>(a != a) ? a : b;
      case Fold::Product: return a * b;
      default: return added(a, b);
    }
  }
  T run(const In* x, int64_t n) const {
    if (n < kFew) return run_few(x, n);
    if constexpr (!std::is_same_v<In, T>)
      if (kind == Fold::Max || kind == Fold::Min) {
        const Extremes<T> ends = extremes(x, n);
        return kind == Fold::Max ? ends.largest : ends.least;
      }
    return fold_run(kind, x, n);
  }
  void rows(T* acc, const In* x, int64_t rows, int64_t stride, int64_t cols) const {
    fold_rows(kind, acc, x, rows, stride, cols);
  }

 private:
  // Fewer elements than are worth a call of the vectors' loop.
  static constexpr int64_t kFew = std::is_same_v<In, half> ? 0 : thresholds::reduce::kFewElements;
  // Integers wrap as unsigned ones do.
  static T added(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  T run_few(const In* x, int64_t n) const {
    T acc = start();
    for (int64_t i = 0; i < n; ++i) acc = join(acc, load(static_cast<T>(x[i])));
    return acc;
  }
  T load(T v) const {
    switch (kind) {
      case Fold::SumSquares: return v * v;
      case Fold::SumAbs: return v < 0 ? -v : v;
      case Fold::SumNumbers: return v == v ? v : T(0);
      default: return v;
    }
  }
};

// A functor made of an Op in plain loops. An Op has start(), load(In) -> Acc, join(Acc, Acc), and
// Next, the Op that joins its results.
template <class T, class A, class Op>
struct Plain {
  using In = T;
  using Acc = A;
  Op op;
  auto next() const {
    if constexpr (std::is_same_v<Op, typename Op::Next>)
      return Plain<A, A, Op>{op};
    else
      return Plain<A, A, typename Op::Next>{};
  }
  A start() const { return op.start(); }
  A join(A a, A b) const { return op.join(a, b); }
  // By halves where it is long, so that rounding errors stay small.
  A run(const T* x, int64_t n) const {
    constexpr int kLanes = 8, kLong = thresholds::reduce::kLongRun;
    if (n < kLanes) {
      A few = op.start();
      for (int64_t i = 0; i < n; ++i) few = op.join(few, op.load(x[i]));
      return few;
    }
    if (n > kLong) {
      const int64_t half = n / 2 / kLanes * kLanes;
      return op.join(run(x, half), run(x + half, n - half));
    }
    A acc[kLanes];
    for (A& a : acc) a = op.start();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) acc[k] = op.join(acc[k], op.load(x[i + k]));
    }
    for (; i < n; ++i) acc[0] = op.join(acc[0], op.load(x[i]));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) acc[k] = op.join(acc[k], acc[k + half]);
    }
    return acc[0];
  }
  void rows(A* acc, const T* x, int64_t rows, int64_t stride, int64_t cols) const {
    for (int64_t i = 0; i < rows; ++i, x += stride) {
      for (int64_t j = 0; j < cols; ++j) acc[j] = op.join(acc[j], op.load(x[j]));
    }
  }
};

}  // namespace moonlet::cpu
