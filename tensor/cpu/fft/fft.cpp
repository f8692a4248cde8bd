// tensor/cpu/fft/fft.cpp: Fourier transforms along a dim of a tensor: which lines of it are
// transformed at once, and the steps between real and complex numbers.
#include "tensor/cpu/fft/fft.h"

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/kernels_fft.h"

namespace moonlet::cpu {

namespace {

using fft::Plan;
using fft::RealPlan;
using fft::Work;

constexpr int64_t kShort = thresholds::fft::kShort;
constexpr int64_t kBatch = fft::kRows;
constexpr int64_t kCached = thresholds::fft::kCached;

// Lines along a dim of a row-major tensor that are transformed at once: `count` neighbours.
struct Batch {
  int64_t outer, inner, count;
};
// Where they lie in a tensor: point i of line b at base + i * point + b * line.
struct Lines {
  int64_t base, point, line;
  bool is_row(int64_t count) const { return point == 1 && count == 1; }
  // Rows of an even number of real points, as half as many complex ones.
  Lines in_pairs() const { return {base / 2, 1, line / 2}; }
};

// The lines along one dim.
class Grid {
 public:
  Grid(const Dims& sizes, int d) {
    for (int i = 0; i < sizes.size(); ++i)
      if (i != d) (i < d ? outer_ : inner_) *= sizes[i];
  }
  Lines lines(const Batch& batch, int64_t n) const {
    return {batch.outer * n * inner_ + batch.inner, inner_, inner_ == 1 ? n : 1};
  }
  // Calls body(batch, room) for all lines on all threads; room is memory for four arrays of `room`
  // points for each line. Rows are taken one by one unless `many`.
  template <class T, class Body>
  void each_batch(bool many, int64_t room, Body&& body) const {
    const int64_t most = std::clamp<int64_t>(kCached / room, 4, kBatch);
    const bool rows = inner_ == 1;
    const int64_t wide = rows ? (many ? most : 1) : std::min(most, inner_);
    const int64_t across = rows ? outer_ : inner_, parts = (across + wide - 1) / wide;
    const int64_t work = checked_mul(8 * room, wide, "fft");
    parallel_for(parts * (rows ? 1 : outer_), grain_for(work), [&](int64_t begin, int64_t end) {
      const int64_t size = room * wide;
      const Tensor memory = empty_plain({checked_mul(4, size, "fft")}, {dtype_of<T>, {}}, "fft");
      T* const at = memory.elements<T>();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i % parts * wide, count = std::min(wide, across - from);
        const Batch batch = rows ? Batch{from, 0, count} : Batch{i / parts, from, count};
        body(batch, Work<T>{at, at + size, at + 2 * size, at + 3 * size});
      }
    });
  }

 private:
  int64_t outer_ = 1, inner_ = 1;
};

// Complex points to and from the arrays of a batch, n times the batch after each other; x and y are
// pairs. `spare` has as much room as both arrays.
template <class T>
void load_complex(const T* x, const Lines& at, int64_t n, int64_t count, T* re, T* im, T* spare) {
  if (at.is_row(count)) return fft::take_apart(x + 2 * at.base, 0, 1, n, re, im);
  if (at.line == 1) return fft::take_apart(x + 2 * at.base, at.point, n, count, re, im);
  if constexpr (std::is_same_v<T, float>)
    if (at.point == 1 && count == fft::kRows)
      return fft::take_rows_apart(x + 2 * at.base, at.line, n, spare, re, im);
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + 2 * (at.base + i * at.point);
    for (int64_t b = 0; b < count; ++b) {
      re[i * count + b] = from[2 * b * at.line];
      im[i * count + b] = from[2 * b * at.line + 1];
    }
  }
}
template <class T>
void store_complex(T* re, T* im, T scale, const Lines& at, int64_t n, int64_t count, T* spare,
                   T* y) {
  if (at.is_row(count)) return fft::put_together(re, im, scale, y + 2 * at.base, 0, 1, n);
  if (at.line == 1) return fft::put_together(re, im, scale, y + 2 * at.base, at.point, n, count);
  if constexpr (std::is_same_v<T, float>)
    if (at.point == 1 && count == fft::kRows)
      return fft::put_rows_together(re, im, scale, n, spare, y + 2 * at.base, at.line);
  for (int64_t i = 0; i < n; ++i) {
    T* to = y + 2 * (at.base + i * at.point);
    for (int64_t b = 0; b < count; ++b) {
      to[2 * b * at.line] = re[i * count + b] * scale;
      to[2 * b * at.line + 1] = im[i * count + b] * scale;
    }
  }
}

// Real points to and from one array, of which the first is at x; `step` 2 leaves every other out.
template <class T>
void load_real(const T* x, const Lines& at, int64_t n, int64_t step, int64_t count, T* re) {
  if (step == 1 && at.is_row(count)) {
    std::copy_n(x + at.base, n, re);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + at.base + i * step * at.point;
    for (int64_t b = 0; b < count; ++b) re[i * count + b] = from[b * at.line];
  }
}
template <class T>
void store_real(const T* re, T scale, const Lines& at, int64_t n, int64_t step, int64_t count,
                T* y) {
  if (step == 1 && at.is_row(count)) {
    for (int64_t i = 0; i < n; ++i) y[at.base + i] = re[i] * scale;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T* to = y + at.base + i * step * at.point;
    for (int64_t b = 0; b < count; ++b) to[b * at.line] = re[i * count + b] * scale;
  }
}

// The transform of x along d, into y, which may be x.
template <class T>
void along(const Tensor& x, int d, bool forward, T scale, Tensor& y) {
  const int64_t n = y.size(d);
  const auto plan = fft::plan_for<T>(n);
  const T* from = reinterpret_cast<const T*>(x.elements<std::complex<T>>());
  T* to = reinterpret_cast<T*>(y.elements<std::complex<T>>());
  const Grid grid(y.sizes(), d);
  grid.each_batch<T>(n < kShort || plan->narrow, plan->room(),
                     [&](const Batch& batch, Work<T> work) {
                       const Lines at = grid.lines(batch, n);
                       load_complex(from, at, n, batch.count, forward ? work.re : work.im,
                                    forward ? work.im : work.re, work.spare());
                       fft::transform(*plan, work, batch.count);
                       if (!forward) work.swap_parts();
                       store_complex(work.re, work.im, scale, at, n, batch.count, work.spare(), to);
                     });
}

// Numbers from, from + 1, ... of `batch` lines to the positions to, to + 1, ... of the other
// arrays.
template <class T>
void copy_numbers(const Work<T>& w, int64_t from, int64_t to, int64_t n, int64_t batch) {
  std::copy_n(w.re + from * batch, n * batch, w.other_re + to * batch);
  std::copy_n(w.im + from * batch, n * batch, w.other_im + to * batch);
}
// The conjugates of numbers from, from - 1, ... to such positions.
template <class T>
void copy_mirrored(const Work<T>& w, int64_t from, int64_t to, int64_t n, int64_t batch) {
  if (batch == 1) {
    for (int64_t i = 0; i < n; ++i) w.other_re[to + i] = w.re[from - i];
    for (int64_t i = 0; i < n; ++i) w.other_im[to + i] = -w.im[from - i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t b = 0; b < batch; ++b) {
      w.other_re[(to + i) * batch + b] = w.re[(from - i) * batch + b];
      w.other_im[(to + i) * batch + b] = -w.im[(from - i) * batch + b];
    }
  }
}

// An odd number n of reals in work.re of each of `count` lines to the first half of their sums.
template <class T>
void sums_of_odd(const RealPlan<T>& plan, Work<T>& work, int64_t count) {
  const int64_t n = plan.n;
  if (!plan.odd) {
    std::fill_n(work.im, n * count, T(0));
    return fft::transform(*plan.complex, work, count);
  }
  fft::divide_reals(*plan.odd, work, count);
  work.turn();
  fft::transform(*plan.complex, work, plan.kept() * count);
  // Sum k + r q is a result for the first half of all k; the conjugate of another one for the rest.
  const int64_t radix = plan.odd->radix, kept = plan.kept(), middle = n / radix / 2;
  for (int64_t q = 0; q <= middle; ++q) {
    copy_numbers(work, q * kept, q * radix, kept, count);
    if (q < middle)
      copy_mirrored(work, (n / radix - q) * kept - 1, q * radix + kept, radix - kept, count);
  }
  work.turn();
}
// The sums are in the other arrays. Those beyond the middle, of an odd number, are conjugates.
template <class T>
void odd_of_sums(const RealPlan<T>& plan, Work<T>& work, int64_t count) {
  const int64_t n = plan.n, radix = plan.odd ? plan.odd->radix : 1, kept = plan.kept();
  std::fill_n(work.other_im, count, T(0));
  work.turn();
  for (int64_t q = 0; q < n / radix; ++q) {
    if (q <= n / radix / 2)
      copy_numbers(work, q * radix, q * kept, kept, count);
    else
      copy_mirrored(work, n - q * radix, q * kept, kept, count);
  }
  work.turn();
  work.swap_parts();
  fft::transform(*plan.complex, work, kept * count);
  work.swap_parts();
  if (!plan.odd) return;
  fft::unite_reals(*plan.odd, work, count);
  work.turn();
}

template <class T>
void real_to_complex(const Tensor& x, int d, T scale, Tensor& y) {
  const int64_t n = x.size(d), sums = n / 2 + 1;
  const auto plan = fft::real_plan_for<T>(n);
  const T* from = x.elements<T>();
  T* to = reinterpret_cast<T*>(y.elements<std::complex<T>>());
  const Grid grid(y.sizes(), d);
  const bool many = plan->points() < kShort || plan->narrow();
  grid.each_batch<T>(many, plan->room(), [&](const Batch& batch, Work<T> work) {
    const Lines at = grid.lines(batch, n);
    const int64_t count = batch.count, h = n / 2;
    if (n % 2 != 0) {
      load_real(from, at, n, 1, count, work.re);
      sums_of_odd(*plan, work, count);
    } else {
      if (at.point == 1) {
        load_complex(from, at.in_pairs(), h, count, work.re, work.im, work.spare());
      } else {
        load_real(from, at, h, 2, count, work.re);
        load_real(from + at.point, at, h, 2, count, work.im);
      }
      fft::transform(*plan->complex, work, count);
      fft::split_halves(plan->turns, work, h, count);
      work.turn();
    }
    store_complex(work.re, work.im, scale, grid.lines(batch, sums), sums, count, work.spare(), to);
  });
}

template <class T>
void complex_to_real(const Tensor& x, int d, int64_t n, T scale, Tensor& y) {
  const int64_t sums = n / 2 + 1;
  const auto plan = fft::real_plan_for<T>(n);
  const T* from = reinterpret_cast<const T*>(x.elements<std::complex<T>>());
  T* to = y.elements<T>();
  const Grid grid(y.sizes(), d);
  const bool many = plan->points() < kShort || plan->narrow();
  grid.each_batch<T>(many, plan->room(), [&](const Batch& batch, Work<T> work) {
    const Lines at = grid.lines(batch, n);
    const int64_t count = batch.count, h = n / 2;
    load_complex(from, grid.lines(batch, sums), sums, count, work.other_re, work.other_im,
                 std::min(work.re, work.im));
    if (n % 2 != 0) {
      odd_of_sums(*plan, work, count);
      return store_real(work.re, scale, at, n, 1, count, to);
    }
    fft::join_halves(plan->turns, work, h, count);
    work.swap_parts();
    fft::transform(*plan->complex, work, count);
    work.swap_parts();
    if (at.point == 1) {
      store_complex(work.re, work.im, scale, at.in_pairs(), h, count, work.spare(), to);
    } else {
      store_real(work.re, scale, at, h, 2, count, to);
      store_real(work.im, scale, at, h, 2, count, to + at.point);
    }
  });
}

}  // namespace

void fft_c2c(const Tensor& x, const Dims& dims, bool forward, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit<dtypes::complex>(out.dtype(), [&]<class C>() {
      using T = typename C::value_type;
      for (int i = 0; i < dims.size(); ++i) {
        const bool last = i + 1 == dims.size();
        along<T>(i == 0 ? source : out, wrapped(dims[i], out.dim()), forward,
                 last ? static_cast<T>(scale) : T(1), out);
      }
    });
  });
}

void fft_r2c(const Tensor& x, int64_t dim, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit<dtypes::complex>(out.dtype(), [&]<class C>() {
      using T = typename C::value_type;
      real_to_complex<T>(source, wrapped(dim, out.dim()), static_cast<T>(scale), out);
    });
  });
}

void fft_c2r(const Tensor& x, int64_t dim, int64_t n, double scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor source = contiguous(x);
  with_contiguous(y, [&](Tensor& out) {
    visit<dtypes::complex>(source.dtype(), [&]<class C>() {
      using T = typename C::value_type;
      complex_to_real<T>(source, wrapped(dim, out.dim()), n, static_cast<T>(scale), out);
    });
  });
}

}  // namespace moonlet::cpu
