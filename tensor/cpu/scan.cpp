// tensor/cpu/scan.cpp: running sums and products along a dimension.
#include <optional>

#include "tensor/cpu/copy.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {

namespace {

struct Plus {
  template <class A>
  static A join(A a, A b) {
    if constexpr (std::is_same_v<A, int64_t>) return static_cast<int64_t>(uint64_t(a) + uint64_t(b));
    else return a + b;
  }
};
struct Times {
  template <class A>
  static A join(A a, A b) {
    if constexpr (std::is_same_v<A, int64_t>) return static_cast<int64_t>(uint64_t(a) * uint64_t(b));
    else return a * b;
  }
};

// What running values of T are kept in.
template <class T>
using running = std::conditional_t<
    std::is_same_v<T, float>, double,
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float,
                       std::conditional_t<std::is_integral_v<T>, int64_t, T>>>;

template <class T, class A>
T narrow(A v) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) return T(float(v));
  else return static_cast<T>(v);
}

template <class F>
void scan(const Tensor& given, int64_t dim, Tensor& y) {
  if (y.numel() == 0) return;
  // The input in the result's dtype; y itself holds it when there is a conversion to make.
  Tensor x = given;
  if (given.dtype() != y.dtype()) {
    copy_into(y, given);
    x = y;
  }
  x = contiguous(x);
  const int64_t n = x.dim() ? x.size(static_cast<int>(dim)) : 1;
  int64_t inner = 1;
  for (int d = static_cast<int>(dim) + 1; d < x.dim(); ++d) inner *= x.size(d);
  visit(y.dtype(), [&]<class T>() {
    using A = running<T>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    parallel_for(x.numel() / n, grain_for(n * 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t start = i / inner * n * inner + i % inner;
        A value = static_cast<A>(from[start]);
        to[start] = narrow<T>(value);
        for (int64_t k = 1, at = start + inner; k < n; ++k, at += inner) {
          value = F::join(value, static_cast<A>(from[at]));
          to[at] = narrow<T>(value);
        }
      }
    });
  });
}

}  // namespace

void cumsum(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  scan<Plus>(x, dim, y);
}
void cumprod(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  scan<Times>(x, dim, y);
}

}  // namespace moonlet::cpu
