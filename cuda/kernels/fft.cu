// cuda/kernels/fft.cu: Fourier transforms: cuFFT's where it is there. Else, along one dim after
// another, the lines are brought to complex scratch memory, transformed there by passes of
// Stockham's algorithm, a thread for each result of a pass, and stored; real numbers as complex
// ones.
#include <utility>
#include <vector>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/libraries/fft_library.h"
#include "cuda/runtime/device.h"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_fft.h"
#include "tensor/raw_arithmetic.h"

namespace moonlet::cuda {

namespace {

// exp(-2 pi i k / n)
template <class T>
__device__ Complex<T> root(int64_t k, int64_t n) {
  const double turn = 2.0 * static_cast<double>(k) / static_cast<double>(n);
  return {static_cast<T>(cospi(turn)), static_cast<T>(-sinpi(turn))};
}
// exp(-pi i k^2 / n)
template <class T>
__device__ Complex<T> chirp(int64_t k, int64_t n) {
  const uint64_t square = static_cast<uint64_t>(k) * static_cast<uint64_t>(k);
  return root<T>(static_cast<int64_t>(square % static_cast<uint64_t>(2 * n)), 2 * n);
}
template <class T>
__device__ Complex<T> conjugate(Complex<T> x, bool wanted = true) {
  return {x.re, wanted ? -x.im : x.im};
}

// Where point i of line l lies in a row-major tensor with n points along the dim.
struct Lines {
  int64_t n, inner;
  __device__ int64_t at(int64_t l, int64_t i) const {
    return (l / inner * n + i) * inner + l % inner;
  }
};

// What is transformed, by line and point. The way back is made of conjugates.
template <class T>
struct ComplexLines {
  Lines lines;
  bool forward;
  const Complex<T>* x;
  __device__ Complex<T> operator()(int64_t l, int64_t i) const {
    return conjugate(x[lines.at(l, i)], !forward);
  }
};
template <class T>
struct RealLines {
  Lines lines;
  const T* x;
  __device__ Complex<T> operator()(int64_t l, int64_t i) const { return {x[lines.at(l, i)], T(0)}; }
};
// The sums of n real numbers, of which the first half is there; conjugates, as the way is back.
template <class T>
struct HalfLines {
  Lines lines;  // of n / 2 + 1 sums
  int64_t n;
  const Complex<T>* x;
  __device__ Complex<T> operator()(int64_t l, int64_t i) const {
    const bool beyond = i > n / 2, real = i == 0 || 2 * i == n;
    const Complex<T> v = x[lines.at(l, beyond ? n - i : i)];
    return real ? Complex<T>(v.re, T(0)) : conjugate(v, !beyond);
  }
};

// The points of lines, zeros behind up to `length`; times the chirp where asked.
template <class T, class Load>
__global__ void load_kernel(int64_t count, int64_t n, int64_t length, bool chirped, Load load,
                            Complex<T>* to) {
  for (MOONLET_EACH(at, count)) {
    const int64_t l = at / length, i = at % length;
    Complex<T> v(T(0), T(0));
    if (i < n) v = chirped ? load(l, i) * chirp<T>(i, n) : load(l, i);
    to[at] = v;
  }
}

// y[q + span (radix p + k)] = sum_j x[q + span (p + groups j)] w^(k (p + groups j)), where w is the
// root of radix x groups.
template <class T>
__global__ void pass_kernel(int64_t count, int64_t length, int64_t span, int64_t radix,
                            const Complex<T>* x, Complex<T>* y) {
  const int64_t groups = length / span / radix, n = radix * groups;
  for (MOONLET_EACH(at, count)) {
    const int64_t i = at % length, q = i % span, k = i / span % radix, p = i / span / radix;
    const Complex<T>* line = x + (at - i);
    Complex<T> sum(T(0), T(0));
    for (int64_t j = 0; j < radix; ++j) {
      const int64_t from = p + groups * j;
      sum += line[q + span * from] * root<T>(k * from % n, n);
    }
    y[at] = sum;
  }
}

// The transform's filter for a convolution with the chirp.
template <class T>
__global__ void filter_kernel(int64_t n, int64_t length, Complex<T>* to) {
  for (MOONLET_EACH(i, length)) {
    const int64_t k = i < n ? i : length - i;
    to[i] = k < n ? conjugate(chirp<T>(k, n)) : Complex<T>(T(0), T(0));
  }
}
template <class T>
__global__ void multiply_kernel(int64_t count, int64_t length, const Complex<T>* filter,
                                Complex<T>* x) {
  for (MOONLET_EACH(at, count)) x[at] = conjugate(x[at] * filter[at % length]);
}

// The first `kept` points of each line, times the scale; of a convolution, the chirp as well.
template <class T, class Store>
__global__ void store_kernel(int64_t count, int64_t kept, int64_t n, int64_t length, bool chirped,
                             const Complex<T>* from, Store store) {
  for (MOONLET_EACH(at, count)) {
    const int64_t l = at / kept, i = at % kept;
    Complex<T> v = from[l * length + i];
    if (chirped) v = conjugate(v) * chirp<T>(i, n);
    store(l, i, v);
  }
}
template <class T>
struct StoreComplex {
  Lines lines;
  bool forward;
  T scale;
  Complex<T>* y;
  __device__ void operator()(int64_t l, int64_t i, Complex<T> v) const {
    y[lines.at(l, i)] = conjugate(Complex<T>(v.re * scale, v.im * scale), !forward);
  }
};
template <class T>
struct StoreReal {
  Lines lines;
  T scale;
  T* y;
  __device__ void operator()(int64_t l, int64_t i, Complex<T> v) const {
    y[lines.at(l, i)] = v.re * scale;
  }
};

// The prime factors of n, fours together. Beyond the largest a convolution does less work.
constexpr int64_t kLargestRadix = 61;
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  const auto take = [&](int64_t radix) {
    for (; n % radix == 0; n /= radix) out.push_back(radix);
  };
  for (const int64_t radix : {4, 2}) take(radix);
  for (int64_t p = 3; p <= kLargestRadix; p += 2) take(p);
  if (n > 1) out.clear();
  return out;
}

// Lines of `length` complex numbers in scratch memory, and as many to write to.
template <class T>
class Scratch {
 public:
  Scratch(const Call& call, int64_t lines, int64_t length)
      : call_(call), length_(length), count_(checked_mul(lines, length, call.op())) {
    const DType dtype = dtype_of<std::complex<T>>;
    memory_ = {call.scratch({count_}, dtype), call.scratch({count_}, dtype)};
  }
  Complex<T>* now() { return memory_.first.template elements<Complex<T>>(); }
  int64_t count() const { return count_; }
  void transform(const std::vector<int64_t>& radices) {
    int64_t span = 1;
    for (const int64_t radix : radices) {
      MOONLET_LAUNCH((pass_kernel<T>), blocks_for(count_), kBlock, 0, call_.stream(), count_,
                     length_, span, radix, static_cast<const Complex<T>*>(now()),
                     memory_.second.template elements<Complex<T>>());
      std::swap(memory_.first, memory_.second);
      span *= radix;
    }
  }

 private:
  const Call& call_;
  const int64_t length_, count_;
  std::pair<Tensor, Tensor> memory_;
};

// The convolution of the loaded lines with the chirp (Bluestein, 1970), up to a conjugate, which
// store_kernel takes, and the factor 1 / length.
template <class T>
void convolve(const Call& call, Scratch<T>& lines, int64_t n, int64_t length,
              const std::vector<int64_t>& radices) {
  Scratch<T> filter(call, 1, length);
  MOONLET_LAUNCH((filter_kernel<T>), blocks_for(length), kBlock, 0, call.stream(), n, length,
                 filter.now());
  filter.transform(radices);
  lines.transform(radices);
  MOONLET_LAUNCH((multiply_kernel<T>), blocks_for(lines.count()), kBlock, 0, call.stream(),
                 lines.count(), length, static_cast<const Complex<T>*>(filter.now()), lines.now());
  lines.transform(radices);
}

// Transforms `count` lines of n points and stores the first `kept` results of each.
template <class T, class Load, class Store>
void transform(const Call& call, int64_t count, int64_t n, int64_t kept, const Load& load,
               Store store) {
  std::vector<int64_t> radices = radices_of(n);
  const bool chirped = radices.empty() && n > 1;
  int64_t length = n;
  if (chirped) {
    check(n < int64_t{1} << 31, call.op(), ": ", n, " points have a prime factor above ",
          kLargestRadix, ", which is done below 2^31 points");
    for (length = 1; length < 2 * n - 1;) length *= 2;
    radices = radices_of(length);
    store.scale /= static_cast<T>(length);
  }
  Scratch<T> lines(call, count, length);
  MOONLET_LAUNCH((load_kernel<T, Load>), blocks_for(lines.count()), kBlock, 0, call.stream(),
                 lines.count(), n, length, chirped, load, lines.now());
  if (chirped)
    convolve(call, lines, n, length, radices);
  else
    lines.transform(radices);
  MOONLET_LAUNCH((store_kernel<T, Store>), blocks_for(count * kept), kBlock, 0, call.stream(),
                 count * kept, kept, n, length, chirped,
                 static_cast<const Complex<T>*>(lines.now()), store);
  call.done();
}

template <class F>
void visit_parts(DType complex, F&& f) {
  if (complex == DType::Complex64)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

// The dims of a tensor, those of `last` behind the others; and the way back.
Dims with_last(int rank, const Dims& last) {
  Dims out;
  for (int d = 0; d < rank; ++d)
    if (!last.contains(d)) out.push_back(d);
  for (const int64_t d : last) out.push_back(d);
  return out;
}
Dims inverse(const Dims& order) {
  Dims out = order;
  for (int d = 0; d < order.size(); ++d) out[static_cast<int>(order[d])] = d;
  return out;
}

// Whether cuFFT can read or write x where it is: pairs of numbers begin where they may.
bool is_ready(const Tensor& x) {
  const size_t pair = 2 * size_of(real_of(x.dtype()));
  return x.is_contiguous() && reinterpret_cast<uintptr_t>(x.raw()) % pair == 0;
}

// No imaginary parts where a transform of real numbers has none.
template <class T>
__global__ void make_real_kernel(int64_t count, int64_t n, Complex<T>* x) {
  for (MOONLET_EACH(l, count)) {
    Complex<T>* line = x + l * (n / 2 + 1);
    line[0].im = T(0);
    if (n % 2 == 0) line[n / 2].im = T(0);
  }
}

// x over `dims`, 1 to 3, by cuFFT, in y's memory where that may be: a tensor of `to`, whose dtype
// is y's. Undefined where cuFFT has no way.
Tensor by_library(const Call& call, FftKind kind, const Tensor& x, const Dims& dims, const Dims& to,
                  bool forward, const Tensor& y) {
  const Dims order = with_last(x.dim(), dims), back = inverse(order);
  Tensor source = views::permute(x, order);
  if (kind == FftKind::ComplexToReal || !is_ready(source)) {
    const Tensor copied = call.scratch(source.sizes(), x.dtype());
    Tensor filled = copied;
    copy(filled, source);
    source = copied;
  }
  Dims sizes, points;
  for (const int64_t d : order) sizes.push_back(to[static_cast<int>(d)]);
  int64_t count = 1;
  for (int d = 0; d < x.dim(); ++d) {
    // Of real numbers, the side that has them all says how many there are.
    const int64_t n = kind == FftKind::RealToComplex ? source.size(d) : sizes[d];
    if (d < x.dim() - dims.size())
      count *= n;
    else
      points.push_back(n);
  }
  if (kind == FftKind::ComplexToReal) {
    visit_parts(x.dtype(), [&]<class T>() {
      MOONLET_LAUNCH((make_real_kernel<T>), blocks_for(count), kBlock, 0, call.stream(), count,
                     points.back(), source.elements<Complex<T>>());
    });
    call.done();
  }
  const Tensor there = views::permute(y, order);
  const bool in_place = is_ready(there) && y.raw() != x.raw();
  const Tensor out = in_place ? there : call.scratch(sizes, y.dtype());
  if (!library_fft(call, kind, points, count, forward, source, out)) return {};
  return views::permute(out, back);
}

// The same over all of `dims`, into y, scaled. False, with y as it was or lost, where cuFFT has no
// way.
bool by_library(const Call& call, FftKind kind, const Tensor& x, const Dims& dims, bool forward,
                double scale, Tensor& y) {
  constexpr int kMost = 3;
  Tensor now = x;
  Dims part;
  for (int i = 0; i < dims.size(); ++i) {
    part.push_back(wrapped(dims[i], x.dim()));
    const bool ends = i + 1 == dims.size();
    if (!ends && part.size() < kMost && !part.contains(wrapped(dims[i + 1], x.dim()))) continue;
    // What is not yet the result lies in memory of its own.
    const Tensor to = ends ? y : call.scratch(y.sizes(), y.dtype());
    now = by_library(call, kind, now, part, y.sizes(), forward, to);
    if (!now.defined()) return false;
    part = {};
  }
  if (now.raw() != y.raw()) copy(y, now);
  if (scale != 1.0) raw::mul_(y, Scalar(scale));
  return true;
}

}  // namespace

void fft_c2c(const Tensor& x, const Dims& dims, bool forward, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(x, "fft_c2c");
  if (by_library(call, FftKind::ComplexToComplex, x, dims, forward, scale, y)) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit_parts(out.dtype(), [&]<class T>() {
      for (int i = 0; i < dims.size(); ++i) {
        const DimSplit s = split_at(out.sizes(), dims[i]);
        const Lines lines{s.size, s.inner};
        Complex<T>* to = out.elements<Complex<T>>();
        const Complex<T>* from = i == 0 ? source.elements<Complex<T>>() : to;
        const T factor = i + 1 == dims.size() ? static_cast<T>(scale) : T(1);
        transform<T>(call, s.outer * s.inner, s.size, s.size, ComplexLines<T>{lines, forward, from},
                     StoreComplex<T>{lines, forward, factor, to});
      }
    });
  });
}

void fft_r2c(const Tensor& x, int64_t dim, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(x, "fft_r2c");
  if (by_library(call, FftKind::RealToComplex, x, {dim}, true, scale, y)) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit_parts(out.dtype(), [&]<class T>() {
      const DimSplit s = split_at(source.sizes(), dim);
      const int64_t sums = s.size / 2 + 1;
      transform<T>(call, s.outer * s.inner, s.size, sums,
                   RealLines<T>{{s.size, s.inner}, source.elements<T>()},
                   StoreComplex<T>{
                       {sums, s.inner}, true, static_cast<T>(scale), out.elements<Complex<T>>()});
    });
  });
}

void fft_c2r(const Tensor& x, int64_t dim, int64_t n, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(x, "fft_c2r");
  if (by_library(call, FftKind::ComplexToReal, x, {dim}, false, scale, y)) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit_parts(source.dtype(), [&]<class T>() {
      const DimSplit s = split_at(out.sizes(), dim);
      transform<T>(call, s.outer * s.inner, n, n,
                   HalfLines<T>{{n / 2 + 1, s.inner}, n, source.elements<Complex<T>>()},
                   StoreReal<T>{{n, s.inner}, static_cast<T>(scale), out.elements<T>()});
    });
  });
}

}  // namespace moonlet::cuda
