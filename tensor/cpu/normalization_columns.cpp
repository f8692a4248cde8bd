// tensor/cpu/normalization_columns.cpp: batch_norm of tensors (n, c), of images whose channels lie
// beside each other, and of few elements beside each other: as matrices of which each column
// belongs to a channel. The loops along a row are made vectors by the compiler, one version per
// instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/normalization_columns.cpp"
//
#include "tensor/cpu/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <vector>

#include "hwy/highway.h"
#include "tensor/cpu/normalization.h"
#include "tensor/shapes/window.h"

#ifndef MOONLET_NORMALIZATION_COLUMNS
#define MOONLET_NORMALIZATION_COLUMNS
namespace moonlet::cpu {
// What a loop along rows of `n` columns reads and writes: a value for each column but in x, grad
// and out, which are the row's.
template <class T>
struct ColumnRow {
  const T *x = nullptr, *grad = nullptr;
  T* out = nullptr;
  int64_t n = 0;
  const T *mean = nullptr, *rstd = nullptr, *factor = nullptr, *offset = nullptr;
  const T *m1 = nullptr, *m2 = nullptr;
};
}  // namespace moonlet::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

// first += x - mean, second += (x - mean)^2
template <class T>
void add_moments(const ColumnRow<T>& r, T* HWY_RESTRICT first, T* HWY_RESTRICT second) {
  const T *HWY_RESTRICT x = r.x, *HWY_RESTRICT mean = r.mean;
  for (int64_t j = 0; j < r.n; ++j) {
    const T d = x[j] - mean[j];
    first[j] += d;
    second[j] += d * d;
  }
}
// With xh = (x - mean) rstd: first += grad, second += grad xh
template <class T>
void add_slopes(const ColumnRow<T>& r, T* HWY_RESTRICT first, T* HWY_RESTRICT second) {
  const T *HWY_RESTRICT x = r.x, *HWY_RESTRICT g = r.grad, *HWY_RESTRICT mean = r.mean;
  const T* HWY_RESTRICT rstd = r.rstd;
  for (int64_t j = 0; j < r.n; ++j) {
    first[j] += g[j];
    second[j] += g[j] * ((x[j] - mean[j]) * rstd[j]);
  }
}
// out = (x - mean) factor + offset
template <class T>
void normalize(const ColumnRow<T>& r) {
  const T *HWY_RESTRICT x = r.x, *HWY_RESTRICT mean = r.mean, *HWY_RESTRICT factor = r.factor;
  const T* HWY_RESTRICT offset = r.offset;
  T* HWY_RESTRICT out = r.out;
  for (int64_t j = 0; j < r.n; ++j) out[j] = (x[j] - mean[j]) * factor[j] + offset[j];
}
// out = factor (grad - m1 - xh m2)
template <class T>
void slope(const ColumnRow<T>& r) {
  const T *HWY_RESTRICT x = r.x, *HWY_RESTRICT g = r.grad, *HWY_RESTRICT mean = r.mean;
  const T *HWY_RESTRICT rstd = r.rstd, *HWY_RESTRICT factor = r.factor;
  const T *HWY_RESTRICT m1 = r.m1, *HWY_RESTRICT m2 = r.m2;
  T* HWY_RESTRICT out = r.out;
  for (int64_t j = 0; j < r.n; ++j)
    out[j] = factor[j] * (g[j] - m1[j] - (x[j] - mean[j]) * rstd[j] * m2[j]);
}

#define MOONLET_COLUMN_LOOPS(T, suffix)                                                  \
  void add_moments_##suffix(const ColumnRow<T>& r, T* a, T* b) { add_moments(r, a, b); } \
  void add_slopes_##suffix(const ColumnRow<T>& r, T* a, T* b) { add_slopes(r, a, b); }   \
  void normalize_##suffix(const ColumnRow<T>& r) { normalize(r); }                       \
  void slope_##suffix(const ColumnRow<T>& r) { slope(r); }
MOONLET_COLUMN_LOOPS(float, f32)
MOONLET_COLUMN_LOOPS(double, f64)
#undef MOONLET_COLUMN_LOOPS

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {
namespace {

template <class T>
struct ColumnLoops;
#define MOONLET_COLUMN_LOOPS(T, suffix)                                                           \
  HWY_EXPORT(add_moments_##suffix);                                                               \
  HWY_EXPORT(add_slopes_##suffix);                                                                \
  HWY_EXPORT(normalize_##suffix);                                                                 \
  HWY_EXPORT(slope_##suffix);                                                                     \
  template <>                                                                                     \
  struct ColumnLoops<T> {                                                                         \
    static void moments(const ColumnRow<T>& r, T* first, T* second) {                             \
      HWY_DYNAMIC_DISPATCH(add_moments_##suffix)(r, first, second);                               \
    }                                                                                             \
    static void slopes(const ColumnRow<T>& r, T* first, T* second) {                              \
      HWY_DYNAMIC_DISPATCH(add_slopes_##suffix)(r, first, second);                                \
    }                                                                                             \
    static void normalize(const ColumnRow<T>& r) { HWY_DYNAMIC_DISPATCH(normalize_##suffix)(r); } \
    static void slope(const ColumnRow<T>& r) { HWY_DYNAMIC_DISPATCH(slope_##suffix)(r); }         \
  };
MOONLET_COLUMN_LOOPS(float, f32)
MOONLET_COLUMN_LOOPS(double, f64)
#undef MOONLET_COLUMN_LOOPS

// x as a matrix: `inner` columns beside each other belong to one channel.
struct Matrix {
  int64_t rows, cols, inner;
  int64_t channels() const { return cols / inner; }
  double count() const { return static_cast<double>(rows * inner); }
};
Matrix matrix_of(const Tensor& x) {
  const Channels c = channels_of(x);
  if (shapes::lies_channels_last(x)) return {c.outer * c.inner, c.channels, 1};
  return {c.outer, c.channels * c.inner, c.inner};
}

// Operands in the order of the matrix.
Tensor rows_of(const Tensor& t, const Tensor& x, DType dtype) {
  return shapes::lies_channels_last(x) ? channels_last(t, dtype) : converted(t, dtype);
}
Tensor room_for_rows(const Tensor& y, const Tensor& x, DType dtype) {
  return shapes::lies_channels_last(x) ? channels_last_workspace(y, dtype) : workspace(y, dtype);
}

// A value of each channel, for each of its columns; `otherwise` where the tensor is undefined.
template <class T>
std::vector<T> for_columns(const Matrix& m, const Tensor& values, T otherwise) {
  std::vector<T> out(static_cast<size_t>(m.cols), otherwise);
  if (!values.defined()) return out;
  for (int64_t j = 0; j < m.cols; ++j)
    out[static_cast<size_t>(j)] = values.elements<T>()[j / m.inner];
  return out;
}

// Both sums of each channel that add(row, first, second) makes, over blocks of rows that depend on
// the shape alone, so that the result is the same for any number of threads. In T over few rows,
// then in double.
struct ChannelSums {
  std::vector<double> first, second;
};
template <class T, class Add>
ChannelSums channel_sums(const Matrix& m, Add&& add) {
  constexpr int64_t kFewRows = 64;
  const int64_t block = std::max<int64_t>(kFewRows, (m.rows + 31) / 32);
  const int64_t blocks = (m.rows + block - 1) / block;
  const auto cols = static_cast<size_t>(m.cols);
  std::vector<double> parts(static_cast<size_t>(2 * blocks) * cols, 0.0);
  parallel_for(blocks, grain_for(block * m.cols), [&](int64_t begin, int64_t end) {
    std::vector<T> first(cols), second(cols);
    for (int64_t b = begin; b < end; ++b) {
      double* part = parts.data() + static_cast<size_t>(2 * b) * cols;
      const int64_t last = std::min(m.rows, (b + 1) * block);
      for (int64_t row = b * block; row < last; row += kFewRows) {
        stop_if_requested();
        std::fill(first.begin(), first.end(), T(0));
        std::fill(second.begin(), second.end(), T(0));
        for (int64_t i = row; i < std::min(last, row + kFewRows); ++i)
          add(i, first.data(), second.data());
        for (size_t j = 0; j < cols; ++j) part[j] += first[j], part[cols + j] += second[j];
      }
    }
  });
  const auto channels = static_cast<size_t>(m.channels()), inner = static_cast<size_t>(m.inner);
  ChannelSums out{std::vector<double>(channels, 0.0), std::vector<double>(channels, 0.0)};
  for (size_t b = 0; b < static_cast<size_t>(blocks); ++b) {
    const double* part = parts.data() + 2 * b * cols;
    for (size_t j = 0; j < cols; ++j) {
      out.first[j / inner] += part[j];
      out.second[j / inner] += part[cols + j];
    }
  }
  return out;
}

// body(row) for all rows of the matrix.
template <class Body>
void each_row(const Matrix& m, Body&& body) {
  parallel_for(m.rows, grain_for(m.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// The mean of each channel, and the sum of squared differences from it; `row` names x and the mean
// of each column, which is set.
template <class T>
ChannelSums channel_moments(const Matrix& m, ColumnRow<T> row, std::vector<T>& means) {
  const T* const x = row.x;
  const auto add = [&](int64_t i, T* first, T* second) {
    ColumnRow<T> r = row;
    r.x = x + i * m.cols;
    ColumnLoops<T>::moments(r, first, second);
  };
  row.mean = means.data();
  ChannelSums sums = channel_sums<T>(m, add);
  for (int64_t j = 0; j < m.cols; ++j)
    means[static_cast<size_t>(j)] =
        static_cast<T>(sums.first[static_cast<size_t>(j / m.inner)] / m.count());
  ChannelSums out = channel_sums<T>(m, add);
  for (size_t k = 0; k < out.first.size(); ++k) {
    const double drift = out.first[k], mean = means[k * static_cast<size_t>(m.inner)];
    out.second[k] -= drift * drift / m.count();
    out.first[k] = mean + drift / m.count();
  }
  return out;
}

}  // namespace

bool normalizes_columns(const Tensor& x) {
  constexpr int64_t kShortRun = 32;
  if (x.numel() == 0) return false;
  return channels_of(x).inner < kShortRun || shapes::lies_channels_last(x);
}

void batch_norm_columns(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, double momentum,
                        double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const Matrix m = matrix_of(x);
  if (m.count() == 0) return;
  const Tensor source = rows_of(x, x, compute);
  Tensor out = room_for_rows(y, x, compute), mu = workspace(mean, compute),
         sigma = workspace(rstd, compute);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    std::vector<T> means(static_cast<size_t>(m.cols), T(0));
    ColumnRow<T> row;
    row.x = source.elements<T>(), row.n = m.cols;
    const ChannelSums moments = channel_moments(m, row, means);
    for (int64_t k = 0; k < m.channels(); ++k) {
      const double first = moments.first[static_cast<size_t>(k)],
                   second = moments.second[static_cast<size_t>(k)];
      mu.elements<T>()[k] = static_cast<T>(first);
      sigma.elements<T>()[k] = static_cast<T>(1 / std::sqrt(second / m.count() + eps));
      update_running(running_mean, k, first, momentum);
      update_running(running_var, k, second / (m.count() - 1), momentum);
    }
    means = for_columns(m, mu, T(0));
    const std::vector<T> offsets = for_columns(m, converted(bias, compute), T(0));
    std::vector<T> factors = for_columns(m, converted(weight, compute), T(1));
    for (int64_t j = 0; j < m.cols; ++j)
      factors[static_cast<size_t>(j)] *= sigma.elements<T>()[j / m.inner];
    row.mean = means.data(), row.factor = factors.data(), row.offset = offsets.data();
    each_row(m, [&](int64_t i) {
      ColumnRow<T> r = row;
      r.x += i * m.cols;
      r.out = out.elements<T>() + i * m.cols;
      ColumnLoops<T>::normalize(r);
    });
  });
  write_back(y, out), write_back(mean, mu), write_back(rstd, sigma);
}

namespace {

// What the gradients of one batch_norm share: the operands by rows, and the sums over grad and over
// grad xh of each channel.
template <class T>
struct Slopes {
  Matrix m;
  Tensor x, grad;
  std::vector<T> means, rstds;
  ColumnRow<T> row;
  ChannelSums sums;

  Slopes(const Tensor& g, const Tensor& input, const Tensor& mean, const Tensor& rstd)
      : m(matrix_of(input)),
        x(rows_of(input, input, dtype_of<T>)),
        grad(rows_of(g, input, dtype_of<T>)),
        means(for_columns(m, converted(mean, dtype_of<T>), T(0))),
        rstds(for_columns(m, converted(rstd, dtype_of<T>), T(0))) {
    row.n = m.cols, row.mean = means.data(), row.rstd = rstds.data();
    sums = channel_sums<T>(
        m, [&](int64_t i, T* first, T* second) { ColumnLoops<T>::slopes(at(i), first, second); });
  }
  Slopes(const Slopes&) = delete;
  Slopes& operator=(const Slopes&) = delete;

  ColumnRow<T> at(int64_t i) const {
    ColumnRow<T> r = row;
    r.x = x.elements<T>() + i * m.cols;
    r.grad = grad.elements<T>() + i * m.cols;
    return r;
  }
};

}  // namespace

void batch_norm_columns_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, const Tensor& weight, Tensor& y,
                              Tensor* grad_weight, Tensor* grad_bias) {
  const DType compute = compute_dtype(x.dtype());
  Tensor out = room_for_rows(y, x, compute);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    Slopes<T> s(grad, x, mean, rstd);
    const Matrix& m = s.m;
    std::vector<T> m1(static_cast<size_t>(m.cols)),
        m2 = m1, factors = for_columns(m, converted(weight, compute), T(1));
    for (size_t j = 0; j < m1.size(); ++j) {
      const size_t k = j / static_cast<size_t>(m.inner);
      m1[j] = static_cast<T>(s.sums.first[k] / m.count());
      m2[j] = static_cast<T>(s.sums.second[k] / m.count());
      factors[j] *= s.rstds[j];
    }
    s.row.m1 = m1.data(), s.row.m2 = m2.data(), s.row.factor = factors.data();
    each_row(m, [&](int64_t i) {
      ColumnRow<T> r = s.at(i);
      r.out = out.elements<T>() + i * m.cols;
      ColumnLoops<T>::slope(r);
    });
    if (grad_weight) store_values(s.sums.second, *grad_weight);
    if (grad_bias) store_values(s.sums.first, *grad_bias);
  });
  write_back(y, out);
}

void batch_norm_columns_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                    const Tensor& rstd, Tensor& y) {
  visit_compute<dtypes::floating>(compute_dtype(x.dtype()), [&]<class T>() {
    store_values(Slopes<T>(grad, x, mean, rstd).sums.second, y);
  });
}

}  // namespace moonlet::cpu
#endif
