// tensor/cpu/reduce.cpp: the kernels of sums, averages, products, extremes, norms and variances.
#include <cmath>
#include <limits>
#include <optional>

#include "tensor/cpu/reduce_engine.h"

namespace moonlet::cpu {

namespace {

// What sums of T are kept in.
template <class T>
struct Wide {
  using type = std::conditional_t<
      std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float,
      std::conditional_t<std::is_integral_v<T>, int64_t, T>>;
};
template <class T>
using wide = typename Wide<T>::type;

template <class T>
inline constexpr bool is_simd = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
inline constexpr bool is_half = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

// A functor that joins what F has made already, for the passes after the first; its own is itself.
template <class F>
struct Joining : F {
  template <class T>
  T load(T v) const { return v; }
};
template <class F>
struct JoinOf { using type = Joining<F>; };
template <class F>
struct JoinOf<Joining<F>> { using type = Joining<F>; };

// A policy from a functor F: start(), load(T) -> Acc and join(Acc, Acc), in plain loops.
template <class T, class A, class F>
struct Plain {
  using In = T;
  using Acc = A;
  F f;
  Plain<A, A, typename JoinOf<F>::type> next() const { return {{f}}; }
  Acc start() const { return f.start(); }
  Acc join(Acc a, Acc b) const { return f.join(a, b); }
  Acc run(const T* x, int64_t n) const {
    constexpr int kLanes = 8;
    Acc acc[kLanes];
    for (Acc& a : acc) a = f.start();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) acc[k] = f.join(acc[k], f.load(x[i + k]));
    }
    for (; i < n; ++i) acc[0] = f.join(acc[0], f.load(x[i]));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) acc[k] = f.join(acc[k], acc[k + half]);
    }
    return acc[0];
  }
  void rows(Acc* acc, const T* x, int64_t rows, int64_t stride, int64_t cols) const {
    for (int64_t i = 0; i < rows; ++i, x += stride) {
      for (int64_t j = 0; j < cols; ++j) acc[j] = f.join(acc[j], f.load(x[j]));
    }
  }
};

// The vectorised policy for float32 and float64; 16-bit floats pass through a block of float32.
template <class T>
struct Fast {
  using In = T;
  using Acc = wide<T>;
  Fold kind;
  Fast<Acc> next() const { return {kind == Fold::Max || kind == Fold::Min ? kind : Fold::Sum}; }
  Acc start() const {
    constexpr Acc kInfinity = std::numeric_limits<Acc>::infinity();
    return kind == Fold::Max ? -kInfinity : kind == Fold::Min ? kInfinity : Acc(0);
  }
  Acc join(Acc a, Acc b) const {
    if (kind == Fold::Max) return a >= b || a != a ? a : b;
    if (kind == Fold::Min) return a <= b || a != a ? a : b;
    return a + b;
  }
  Acc run(const T* x, int64_t n) const {
    if constexpr (is_simd<T>) {
      return fold_run(kind, x, n);
    } else {
      float block[kRunLength];
      for (int64_t i = 0; i < n; ++i) block[i] = x[i];
      return fold_run(kind, static_cast<const float*>(block), n);
    }
  }
  void rows(Acc* acc, const T* x, int64_t rows, int64_t stride, int64_t cols) const {
    if constexpr (is_simd<T>) {
      fold_rows(kind, acc, x, rows, stride, cols);
    } else {
      float block[4096];
      for (int64_t i = 0; i < rows; ++i, x += stride) {
        for (int64_t j = 0; j < cols; ++j) block[j] = x[j];
        fold_rows(kind, acc, static_cast<const float*>(block), 1, 0, cols);
      }
    }
  }
};

template <class A>
struct SumOf {
  A start() const { return A(0); }
  template <class T>
  A load(T v) const { return static_cast<A>(v); }
  // Integers wrap as unsigned ones do.
  A join(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
template <class A>
struct ProductOf {
  A start() const { return A(1); }
  template <class T>
  A load(T v) const { return static_cast<A>(v); }
  A join(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
template <class T>
struct Extreme {
  bool largest;
  T start() const {
    return largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
  T load(T v) const { return v; }
  T join(T a, T b) const { return largest ? (a >= b ? a : b) : (a <= b ? a : b); }
};
template <class T>
bool truth(T v) {
  if constexpr (is_half<T>) return static_cast<float>(v) != 0;
  else return v != T(0);
}
struct CountOf {
  int64_t start() const { return 0; }
  template <class T>
  int64_t load(T v) const { return truth(v); }
  int64_t join(int64_t a, int64_t b) const { return a + b; }
};
struct TruthOf {
  bool all;
  uint8_t start() const { return all; }
  template <class T>
  uint8_t load(T v) const { return truth(v); }
  uint8_t join(uint8_t a, uint8_t b) const { return all ? a & b : a | b; }
};
template <class A>
struct PowerOf {
  A p;
  A start() const { return 0; }
  template <class T>
  A load(T v) const { return std::pow(std::abs(static_cast<A>(v)), p); }
  A join(A a, A b) const { return a + b; }
};

// x in y's dtype, when another was asked for.
Tensor in_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty(x.sizes(), Options{dtype, x.device()});
  copy_into(out, x);
  return out;
}

template <class Out, class A>
Out narrow(A v) {
  if constexpr (is_half<Out>) return Out(static_cast<float>(v));
  else return static_cast<Out>(v);
}

// The sum times `scale`, for sum and mean. Integers that are summed as int64 are read as they are.
void scaled_sum(const Tensor& given, const Dims& dim, Tensor& y, double scale) {
  const bool direct = y.dtype() == DType::Int64 && !is_differentiable(given.dtype());
  const Tensor x = direct ? given : in_dtype(given, y.dtype());
  const Dims dims = all_if_empty(dim, x.dim());
  visit(x.dtype(), [&]<class T>() {
    using A = wide<T>;
    if constexpr (is_simd<T> || is_half<T>) {
      reduce_dims<T>(Fast<T>{Fold::Sum}, x, dims, y,
                     [&](A v) { return narrow<T>(static_cast<A>(v * scale)); });
    } else if constexpr (is_complex_v<T>) {
      using Part = typename T::value_type;
      reduce_dims<T>(Plain<T, T, SumOf<T>>{}, x, dims, y,
                     [&](T v) { return v * static_cast<Part>(scale); });
    } else if (direct) {
      reduce_dims<int64_t>(Plain<T, A, SumOf<A>>{}, x, dims, y, [](A v) { return v; });
    } else {
      reduce_dims<T>(Plain<T, A, SumOf<A>>{}, x, dims, y, [](A v) { return narrow<T>(v); });
    }
  });
}

int64_t reduced_count(const Tensor& x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= x.size(static_cast<int>(d));
  return count;
}

void extreme(const Tensor& x, const Dims& dim, Tensor& y, bool largest) {
  const Dims dims = all_if_empty(dim, x.dim());
  if (x.numel() == 0) return;
  visit<dtypes::real | dtypes::boolean>(x.dtype(), [&]<class T>() {
    if constexpr (is_simd<T> || is_half<T>) {
      reduce_dims<T>(Fast<T>{largest ? Fold::Max : Fold::Min}, x, dims, y,
                     [](wide<T> v) { return narrow<T>(v); });
    } else {
      reduce_dims<T>(Plain<T, T, Extreme<T>>{{largest}}, x, dims, y, [](T v) { return v; });
    }
  });
}

void truth_of(const Tensor& x, const Dims& dim, Tensor& y, bool all) {
  const Dims dims = all_if_empty(dim, x.dim());
  visit(x.dtype(), [&]<class T>() {
    reduce_dims<bool>(Plain<T, uint8_t, TruthOf>{{all}}, x, dims, y,
                      [](uint8_t v) { return v != 0; });
  });
}

// x with `dims` moved to the end, contiguous: one row per result.
Tensor rows_last(const Tensor& x, const Dims& dims) {
  Dims sizes, strides;
  for (int pass = 0; pass < 2; ++pass) {
    for (int d = 0; d < x.dim(); ++d) {
      if (dims.contains(d) != (pass == 1)) continue;
      sizes.push_back(x.size(d));
      strides.push_back(x.stride(d));
    }
  }
  return contiguous(alias(x, sizes, strides, x.offset()));
}

// The sum of row_value(first element) over a row's runs of at most kRunLength, joined in a tree.
template <class A, class RunSum>
A tree_sum(int64_t begin, int64_t end, const RunSum& run_sum) {
  if (end - begin <= kRunLength) return run_sum(begin, end - begin);
  const int64_t middle = begin + ((end - begin) / 2 + kRunLength - 1) / kRunLength * kRunLength;
  return tree_sum<A>(begin, middle, run_sum) + tree_sum<A>(middle, end, run_sum);
}

template <class T>
wide<T> row_variance(const T* x, int64_t n, int64_t correction) {
  using A = wide<T>;
  const Fast<T> sum{Fold::Sum};
  const A mean = tree_sum<A>(0, n, [&](int64_t at, int64_t k) { return sum.run(x + at, k); }) /
                 static_cast<A>(n);
  A block[512];
  const A squares = tree_sum<A>(0, n, [&](int64_t at, int64_t k) {
    A total = 0;
    for (int64_t i = 0; i < k; i += 512) {
      const int64_t m = std::min<int64_t>(512, k - i);
      for (int64_t j = 0; j < m; ++j) block[j] = static_cast<A>(x[at + i + j]) - mean;
      total += fold_run(Fold::SumSquares, static_cast<const A*>(block), m);
    }
    return total;
  });
  return squares / static_cast<A>(std::max<int64_t>(n - correction, 0));
}

template <class T>
wide<T> row_logsumexp(const T* x, int64_t n) {
  using A = wide<T>;
  A most = -std::numeric_limits<A>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const A v = static_cast<A>(x[i]);
    most = most >= v || most != most ? most : v;
  }
  if (!std::isfinite(most)) return most;
  const A total = tree_sum<A>(0, n, [&](int64_t at, int64_t k) {
    A sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += std::exp(static_cast<A>(x[at + i]) - most);
    return sum;
  });
  return most + std::log(total);
}

template <class Row>
void each_row(const Tensor& x, const Dims& dim, Tensor& y, Row&& row) {
  const Dims dims = all_if_empty(dim, x.dim());
  const Tensor whole = rows_last(x, dims);
  const int64_t n = reduced_count(x, dims);
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    const T* from = whole.data<T>();
    T* to = y.data<T>();
    parallel_for(y.numel(), grain_for(n * 4), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = narrow<T>(row.template operator()<T>(from + i * n, n));
      }
    });
  });
}

}  // namespace

void sum(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  scaled_sum(x, dim, y, 1);
}

void mean(const Tensor& x, const Dims& dim, bool, std::optional<DType>, Tensor& y) {
  const int64_t count = reduced_count(x, all_if_empty(dim, x.dim()));
  scaled_sum(x, dim, y, count ? 1.0 / static_cast<double>(count)
                              : std::numeric_limits<double>::quiet_NaN());
}

void prod(const Tensor& given, std::optional<int64_t> dim, bool, std::optional<DType>, Tensor& y) {
  const bool direct = y.dtype() == DType::Int64 && !is_differentiable(given.dtype());
  const Tensor x = direct ? given : in_dtype(given, y.dtype());
  const Dims dims = all_if_empty(dim && x.dim() ? Dims{*dim} : Dims{}, x.dim());
  visit(x.dtype(), [&]<class T>() {
    using A = wide<T>;
    if (direct) {
      reduce_dims<int64_t>(Plain<T, A, ProductOf<A>>{}, x, dims, y,
                           [](A v) { return narrow<int64_t>(std::real(v)); });
    } else {
      reduce_dims<T>(Plain<T, A, ProductOf<A>>{}, x, dims, y, [](A v) { return narrow<T>(v); });
    }
  });
}

void amax(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme(x, dim, y, true); }
void amin(const Tensor& x, const Dims& dim, bool, Tensor& y) { extreme(x, dim, y, false); }
void any(const Tensor& x, const Dims& dim, bool, Tensor& y) { truth_of(x, dim, y, false); }
void all(const Tensor& x, const Dims& dim, bool, Tensor& y) { truth_of(x, dim, y, true); }

void count_nonzero(const Tensor& x, const Dims& dim, Tensor& y) {
  const Dims dims = all_if_empty(dim, x.dim());
  visit(x.dtype(), [&]<class T>() {
    reduce_dims<int64_t>(Plain<T, int64_t, CountOf>{}, x, dims, y, [](int64_t v) { return v; });
  });
}

void var(const Tensor& x, const Dims& dim, int64_t correction, bool, Tensor& y) {
  each_row(x, dim, y, [&]<class T>(const T* row, int64_t n) {
    return row_variance(row, n, correction);
  });
}

void logsumexp(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  each_row(x, dim, y, []<class T>(const T* row, int64_t n) { return row_logsumexp(row, n); });
}

void norm(const Tensor& x, double p, const Dims& dim, bool, Tensor& y) {
  const Dims dims = all_if_empty(dim, x.dim());
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    using A = wide<T>;
    if (p == 2) {
      reduce_dims<T>(Fast<T>{Fold::SumSquares}, x, dims, y,
                     [](A v) { return narrow<T>(std::sqrt(v)); });
    } else if (p == 1) {
      reduce_dims<T>(Fast<T>{Fold::SumAbs}, x, dims, y, [](A v) { return narrow<T>(v); });
    } else if (p == 0) {
      reduce_dims<T>(Plain<T, int64_t, CountOf>{}, x, dims, y,
                     [](int64_t v) { return narrow<T>(static_cast<A>(v)); });
    } else if (std::isinf(p)) {
      Tensor magnitudes = contiguous(x);
      if (magnitudes.is_same(x) || magnitudes.storage().data() == x.storage().data()) {
        magnitudes = empty_like(x);
        copy_into(magnitudes, x);
      }
      T* m = magnitudes.data<T>();
      for (int64_t i = 0; i < magnitudes.numel(); ++i) {
        m[i] = narrow<T>(std::abs(static_cast<A>(m[i])));
      }
      if (x.numel() == 0) {
        std::fill_n(y.data<T>(), y.numel(), narrow<T>(A(0)));
      } else {
        extreme(magnitudes, dims, y, p > 0);
      }
    } else {
      const A power = static_cast<A>(p);
      reduce_dims<T>(Plain<T, A, PowerOf<A>>{{power}}, x, dims, y,
                     [&](A v) { return narrow<T>(std::pow(v, 1 / power)); });
    }
  });
}

}  // namespace moonlet::cpu
