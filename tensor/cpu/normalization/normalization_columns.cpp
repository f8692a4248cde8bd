// tensor/cpu/normalization/normalization_columns.cpp: batch_norm of tensors (n, c), of images whose
// channels lie beside each other, and of few elements beside each other: as matrices of which each
// column belongs to a channel. The loops along a row are made vectors by the compiler, one version
// per instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/normalization/normalization_columns.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <memory>
#include <vector>

#include "hwy/highway.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/normalization/normalization.h"
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
void add_gradients(const ColumnRow<T>& r, T* HWY_RESTRICT first, T* HWY_RESTRICT second) {
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
void gradient(const ColumnRow<T>& r) {
  const T *HWY_RESTRICT x = r.x, *HWY_RESTRICT g = r.grad, *HWY_RESTRICT mean = r.mean;
  const T *HWY_RESTRICT rstd = r.rstd, *HWY_RESTRICT factor = r.factor;
  const T *HWY_RESTRICT m1 = r.m1, *HWY_RESTRICT m2 = r.m2;
  T* HWY_RESTRICT out = r.out;
  for (int64_t j = 0; j < r.n; ++j)
    out[j] = factor[j] * (g[j] - m1[j] - (x[j] - mean[j]) * rstd[j] * m2[j]);
}

#define MOONLET_COLUMN_LOOPS(T, suffix)                                                      \
  void add_moments_##suffix(const ColumnRow<T>& r, T* a, T* b) { add_moments(r, a, b); }     \
  void add_gradients_##suffix(const ColumnRow<T>& r, T* a, T* b) { add_gradients(r, a, b); } \
  void normalize_##suffix(const ColumnRow<T>& r) { normalize(r); }                           \
  void gradient_##suffix(const ColumnRow<T>& r) { gradient(r); }
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
  HWY_EXPORT(add_gradients_##suffix);                                                             \
  HWY_EXPORT(normalize_##suffix);                                                                 \
  HWY_EXPORT(gradient_##suffix);                                                                  \
  template <>                                                                                     \
  struct ColumnLoops<T> {                                                                         \
    static void moments(const ColumnRow<T>& r, T* first, T* second) {                             \
      HWY_DYNAMIC_DISPATCH(add_moments_##suffix)(r, first, second);                               \
    }                                                                                             \
    static void gradients(const ColumnRow<T>& r, T* first, T* second) {                           \
      HWY_DYNAMIC_DISPATCH(add_gradients_##suffix)(r, first, second);                             \
    }                                                                                             \
    static void normalize(const ColumnRow<T>& r) { HWY_DYNAMIC_DISPATCH(normalize_##suffix)(r); } \
    static void gradient(const ColumnRow<T>& r) { HWY_DYNAMIC_DISPATCH(gradient_##suffix)(r); }   \
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

// The dtype in which the loops take t's rows: long rows of 16-bit floats are converted one at a
// time, so that they stay in the cache.
DType row_dtype(const Tensor& t, const Matrix& m) {
  constexpr int64_t kLong = thresholds::normalization::kConvertedRow;
  return is_reduced_floating(t.dtype()) && m.cols >= kLong ? t.dtype() : compute_dtype(t.dtype());
}

// The rows of an operand of x's shape as numbers of type T.
template <class T>
class RowsOf {
 public:
  RowsOf(const Tensor& t, const Tensor& x, const Matrix& m) : cols_(m.cols) {
    const DType dtype = row_dtype(t, m) == t.dtype() ? t.dtype() : dtype_of<T>;
    rows_ = shapes::lies_channels_last(x) ? channels_last(t, dtype) : converted(t, dtype);
    if (dtype != dtype_of<T>) convert_ = dense_converter(dtype, dtype_of<T>);
  }
  const T* row(int64_t i, T* room) const {
    if (convert_ == nullptr) return rows_.template elements<T>() + i * cols_;
    const auto bytes = static_cast<int64_t>(size_of(rows_.dtype()));
    convert_(rows_.raw() + i * cols_ * bytes, room, static_cast<size_t>(cols_));
    return room;
  }

 private:
  Tensor rows_;
  int64_t cols_;
  DenseConverter convert_ = nullptr;
};

// The rows of a result y of x's shape, which are written as numbers of type T.
template <class T>
class RowsTo {
 public:
  RowsTo(Tensor& y, const Tensor& x, const Matrix& m) : y_(y), cols_(m.cols) {
    const DType dtype = row_dtype(y, m) == y.dtype() ? y.dtype() : dtype_of<T>;
    rows_ = shapes::lies_channels_last(x) ? channels_last_workspace(y, dtype) : workspace(y, dtype);
    if (dtype != dtype_of<T>) convert_ = dense_converter(dtype_of<T>, dtype);
  }
  T* row(int64_t i, T* room) {
    return convert_ == nullptr ? rows_.template elements<T>() + i * cols_ : room;
  }
  void written(int64_t i, const T* room) {
    if (convert_ == nullptr) return;
    const auto bytes = static_cast<int64_t>(size_of(rows_.dtype()));
    convert_(room, rows_.raw() + i * cols_ * bytes, static_cast<size_t>(cols_));
  }
  void finish() { write_back(y_, rows_); }

 private:
  Tensor& y_;
  Tensor rows_;
  int64_t cols_;
  DenseConverter convert_ = nullptr;
};

// Room for rows that a thread converts.
template <class T>
class Room {
 public:
  explicit Room(const Matrix& m) : cols_(m.cols), data_(new T[static_cast<size_t>(3 * m.cols)]) {}
  T* row(int k) const { return data_.get() + k * cols_; }

 private:
  int64_t cols_;
  std::unique_ptr<T[]> data_;
};

// A value of each channel, for each of its columns; `otherwise` where the tensor is undefined.
template <class T>
std::vector<T> for_columns(const Matrix& m, const Tensor& values, T otherwise) {
  std::vector<T> out(static_cast<size_t>(m.cols), otherwise);
  if (!values.defined()) return out;
  for (int64_t j = 0; j < m.cols; ++j)
    out[static_cast<size_t>(j)] = values.elements<T>()[j / m.inner];
  return out;
}

// Both sums of each channel that add(row, room, first, second) makes, over blocks of rows that
// depend on the shape alone, so that the result is the same for any number of threads. In T over
// few rows, then in double.
struct ChannelSums {
  std::vector<double> first, second;
};
template <class T, class Add>
ChannelSums channel_sums(const Matrix& m, Add&& add) {
  constexpr int64_t kFewRows = thresholds::normalization::kFewRows;
  const int64_t block = std::max<int64_t>(kFewRows, (m.rows + 31) / 32);
  const int64_t blocks = (m.rows + block - 1) / block;
  const auto cols = static_cast<size_t>(m.cols);
  std::vector<double> parts(static_cast<size_t>(2 * blocks) * cols, 0.0);
  parallel_for(blocks, grain_for(block * m.cols), [&](int64_t begin, int64_t end) {
    std::vector<T> first(cols), second(cols);
    const Room<T> room(m);
    for (int64_t b = begin; b < end; ++b) {
      double* part = parts.data() + static_cast<size_t>(2 * b) * cols;
      const int64_t last = std::min(m.rows, (b + 1) * block);
      for (int64_t row = b * block; row < last; row += kFewRows) {
        stop_if_requested();
        std::fill(first.begin(), first.end(), T(0));
        std::fill(second.begin(), second.end(), T(0));
        for (int64_t i = row; i < std::min(last, row + kFewRows); ++i)
          add(i, room, first.data(), second.data());
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

// body(row, room) for all rows of the matrix.
template <class T, class Body>
void each_row(const Matrix& m, Body&& body) {
  parallel_for(m.rows, grain_for(m.cols), [&](int64_t begin, int64_t end) {
    const Room<T> room(m);
    for (int64_t i = begin; i < end; ++i) body(i, room);
  });
}

// Sets each column to its channel's value.
template <class T>
void set_columns(const Matrix& m, const std::vector<double>& channels, double divisor,
                 std::vector<T>& to) {
  for (int64_t j = 0; j < m.cols; ++j)
    to[static_cast<size_t>(j)] =
        static_cast<T>(channels[static_cast<size_t>(j / m.inner)] / divisor);
}

// About the mean of each channel, for each of its columns: that of a few rows.
template <class T>
void set_rough_means(const Matrix& m, const RowsOf<T>& x, std::vector<T>& means) {
  constexpr int64_t kRows = thresholds::normalization::kMeanRows;
  const int64_t step = (m.rows + kRows - 1) / kRows, taken = (m.rows + step - 1) / step;
  const Matrix few{taken, m.cols, m.inner};
  std::fill(means.begin(), means.end(), T(0));
  const ChannelSums sums =
      channel_sums<T>(few, [&](int64_t i, const Room<T>& room, T* first, T* second) {
        ColumnRow<T> r;
        r.n = m.cols, r.mean = means.data(), r.x = x.row(i * step, room.row(0));
        ColumnLoops<T>::moments(r, first, second);
      });
  set_columns(m, sums.first, few.count(), means);
}

// The mean of each channel, and the sum of squared differences from it. These are taken from about
// the mean, and put right by how far that is from it; once more where it is too far.
template <class T>
ChannelSums channel_moments(const Matrix& m, const RowsOf<T>& x) {
  std::vector<T> means(static_cast<size_t>(m.cols));
  set_rough_means(m, x, means);
  const auto add = [&](int64_t i, const Room<T>& room, T* first, T* second) {
    ColumnRow<T> r;
    r.n = m.cols, r.mean = means.data(), r.x = x.row(i, room.row(0));
    ColumnLoops<T>::moments(r, first, second);
  };
  for (bool is_last = false;; is_last = true) {
    ChannelSums sums = channel_sums<T>(m, add);
    bool is_near = true;
    for (size_t k = 0; k < sums.first.size(); ++k) {
      const double drift = sums.first[k], excess = drift * drift / m.count();
      sums.second[k] -= excess;
      if (sums.second[k] < 0) sums.second[k] = 0;
      sums.first[k] = means[k * static_cast<size_t>(m.inner)] + drift / m.count();
      is_near &= excess <= sums.second[k];
    }
    if (is_near || is_last) return sums;
    set_columns(m, sums.first, 1, means);
  }
}

// What the loops subtract and multiply by in each channel.
template <class T>
struct Centers {
  std::vector<T> means, rests, rstds;
  bool leaves_range = false;

  Centers(const Matrix& m, const Tensor& mean, const Tensor& rstd)
      : means(static_cast<size_t>(m.channels())), rests(means), rstds(means) {
    NormRun<T> r;
    for (int64_t k = 0; k < m.channels(); ++k) {
      const auto at = static_cast<size_t>(k);
      set_center(r, mean, rstd, k, m.rows * m.inner);
      means[at] = r.mean, rests[at] = r.rest, rstds[at] = r.rstd;
      leaves_range |= r.leaves_range;
    }
  }
};

}  // namespace

bool normalizes_columns(const Tensor& x) {
  constexpr int64_t kShortRun = thresholds::normalization::kColumnRun;
  if (x.numel() == 0) return false;
  return channels_of(x).inner < kShortRun || shapes::lies_channels_last(x);
}

namespace {

// Sets the statistics to those of each channel; false where squares left the range of T.
template <class T>
bool set_moments(const Matrix& m, const RowsOf<T>& x, double eps, ChannelSums& moments,
                 Tensor& mean, Tensor& rstd) {
  moments = channel_moments(m, x);
  for (int64_t k = 0; k < m.channels(); ++k) {
    const double second = moments.second[static_cast<size_t>(k)];
    if (left_range<T>(second, m.count(), eps)) return false;
    mean.elements<double>()[k] = moments.first[static_cast<size_t>(k)];
    rstd.elements<double>()[k] = 1 / std::sqrt(second / m.count() + eps);
  }
  return true;
}

}  // namespace

bool batch_norm_columns(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, double momentum,
                        double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const Matrix m = matrix_of(x);
  if (m.count() == 0) return true;
  Tensor mu = workspace(mean, kStatistics), sigma = workspace(rstd, kStatistics);
  const bool done = visit_compute<dtypes::floating>(compute, [&]<class T>() {
    const RowsOf<T> source(x, x, m);
    RowsTo<T> out(y, x, m);
    ChannelSums moments;
    if (!set_moments(m, source, eps, moments, mu, sigma)) return false;
    const Centers<T> centers(m, mu, sigma);
    if (centers.leaves_range) return false;
    std::vector<T> means(static_cast<size_t>(m.cols));
    std::vector<T> offsets = for_columns(m, converted(bias, compute), T(0));
    std::vector<T> factors = for_columns(m, converted(weight, compute), T(1));
    for (int64_t j = 0; j < m.cols; ++j) {
      const auto at = static_cast<size_t>(j), channel = static_cast<size_t>(j / m.inner);
      means[at] = centers.means[channel];
      factors[at] *= centers.rstds[channel];
      offsets[at] -= centers.rests[channel] * factors[at];
    }
    for (int64_t k = 0; k < m.channels(); ++k) {
      const auto at = static_cast<size_t>(k);
      update_running(running_mean, k, moments.first[at], momentum);
      update_running(running_var, k, moments.second[at] / (m.count() - 1), momentum);
    }
    each_row<T>(m, [&](int64_t i, const Room<T>& room) {
      ColumnRow<T> r;
      r.mean = means.data(), r.factor = factors.data(), r.offset = offsets.data();
      r.n = m.cols, r.x = source.row(i, room.row(0)), r.out = out.row(i, room.row(1));
      ColumnLoops<T>::normalize(r);
      out.written(i, r.out);
    });
    out.finish();
    return true;
  });
  if (done) write_back(mean, mu), write_back(rstd, sigma);
  return done;
}

namespace {

// What the gradients of one batch_norm share: the operands by rows, and the sums over grad and over
// grad xh of each channel.
template <class T>
struct Gradients {
  Matrix m;
  RowsOf<T> x, grad;
  Centers<T> centers;
  std::vector<T> means, rstds;
  std::vector<double> shifts;  // what the rests of the means take off xh
  ColumnRow<T> row;
  ChannelSums sums;

  Gradients(const Tensor& g, const Tensor& input, const Tensor& mean, const Tensor& rstd)
      : m(matrix_of(input)),
        x(input, input, m),
        grad(g, input, m),
        centers(m, converted(mean, kStatistics), converted(rstd, kStatistics)),
        means(static_cast<size_t>(m.cols)),
        rstds(means),
        shifts(static_cast<size_t>(m.channels())) {
    if (centers.leaves_range) return;
    for (int64_t j = 0; j < m.cols; ++j) {
      const auto at = static_cast<size_t>(j), channel = static_cast<size_t>(j / m.inner);
      means[at] = centers.means[channel], rstds[at] = centers.rstds[channel];
    }
    for (size_t k = 0; k < shifts.size(); ++k)
      shifts[k] = static_cast<double>(centers.rests[k]) * centers.rstds[k];
    row.n = m.cols, row.mean = means.data(), row.rstd = rstds.data();
    sums = channel_sums<T>(m, [&](int64_t i, const Room<T>& room, T* first, T* second) {
      ColumnLoops<T>::gradients(at(i, room), first, second);
    });
    for (size_t k = 0; k < shifts.size(); ++k) sums.second[k] -= shifts[k] * sums.first[k];
  }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  ColumnRow<T> at(int64_t i, const Room<T>& room) const {
    ColumnRow<T> r = row;
    r.x = x.row(i, room.row(0)), r.grad = grad.row(i, room.row(1));
    return r;
  }
};

}  // namespace

bool batch_norm_columns_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, const Tensor& weight, Tensor& y,
                              Tensor* grad_weight, Tensor* grad_bias) {
  const DType compute = compute_dtype(x.dtype());
  return visit_compute<dtypes::floating>(compute, [&]<class T>() {
    Gradients<T> s(grad, x, mean, rstd);
    if (s.centers.leaves_range) return false;
    const Matrix& m = s.m;
    RowsTo<T> out(y, x, m);
    std::vector<T> m1(static_cast<size_t>(m.cols)),
        m2 = m1, factors = for_columns(m, converted(weight, compute), T(1));
    for (size_t j = 0; j < m1.size(); ++j) {
      const size_t k = j / static_cast<size_t>(m.inner);
      const double product = s.sums.second[k] / m.count();
      m1[j] = static_cast<T>(s.sums.first[k] / m.count() - s.shifts[k] * product);
      m2[j] = static_cast<T>(product);
      factors[j] *= s.rstds[j];
    }
    s.row.m1 = m1.data(), s.row.m2 = m2.data(), s.row.factor = factors.data();
    each_row<T>(m, [&](int64_t i, const Room<T>& room) {
      ColumnRow<T> r = s.at(i, room);
      r.out = out.row(i, room.row(2));
      ColumnLoops<T>::gradient(r);
      out.written(i, r.out);
    });
    out.finish();
    if (grad_weight) store_values(s.sums.second, *grad_weight);
    if (grad_bias) store_values(s.sums.first, *grad_bias);
    return true;
  });
}

bool batch_norm_columns_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                    const Tensor& rstd, Tensor& y) {
  return visit_compute<dtypes::floating>(compute_dtype(x.dtype()), [&]<class T>() {
    const Gradients<T> s(grad, x, mean, rstd);
    if (s.centers.leaves_range) return false;
    store_values(s.sums.second, y);
    return true;
  });
}

}  // namespace moonlet::cpu
#endif
