// tensor/cpu/linalg/linalg_distance.cpp: the CPU kernels of distances between the rows of matrices
// and of their gradients. The other points are laid out by coordinates, so that a vector holds many
// points; a tile of them stays in the cache while all rows pass.
#include "tensor/cpu/linalg/linalg_distance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {
namespace {

constexpr DTypeSet kComputed = bit(DType::Float32) | bit(DType::Float64);

int64_t batch_of(const Tensor& x) {
  int64_t out = 1;
  for (int i = 0; i + 2 < x.dim(); ++i) out *= x.size(i);
  return out;
}

// The points of x (..., n, d), contiguous, by coordinates, with zeros behind them.
struct Laid {
  explicit Laid(const Tensor& x) : count(x.size(-2)), dims(x.size(-1)) {
    const int64_t batch = batch_of(x);
    stride = (count + kPointVectors - 1) / kPointVectors * kPointVectors + kPointVectors;
    data = empty_plain({batch, dims, stride}, options_of(x), "cdist");
    zero_bytes(data.raw(), data.numel() * static_cast<int64_t>(size_of(x.dtype())));
    const Dims sizes{batch, dims, count};
    Tensor part = alias(data, sizes, {dims * stride, stride, 1}, 0);
    copy_into(part, alias(x, sizes, {count * dims, 1, dims}, x.offset()));
  }
  // How many points share the cache.
  int64_t tile() const {
    constexpr int64_t kElements = thresholds::linalg::kDistanceElements;
    const int64_t fit = kElements / std::max<int64_t>(dims, 1) / kPointVectors * kPointVectors;
    return std::clamp(fit, kPointVectors, stride);
  }
  template <class T>
  Points<T> from(int64_t entry, int64_t first) const {
    return {data.elements<T>() + entry * dims * stride + first, dims, stride};
  }
  int64_t count, dims, stride = 0;
  Tensor data;
};

// A row with workspace behind it for whole vectors.
template <class T>
std::vector<T> line_of(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count + 2 * kPointVectors));
}

// body(row, first, last) for rows [begin, end) and tiles of all points.
template <class Body>
void each_tile(const Laid& others, int64_t begin, int64_t end, Body&& body) {
  for (int64_t first = 0; first < others.count; first += others.tile()) {
    const int64_t last = std::min(others.count, first + others.tile());
    for (int64_t row = begin; row < end; ++row) {
      stop_if_requested();
      body(row, first, last);
    }
  }
}

template <class T>
void all_distances(const Tensor& x1, const Laid& others, double p, Tensor& y) {
  const int64_t rows = x1.size(-2), dims = others.dims, count = others.count;
  parallel_for(batch_of(x1) * rows, grain_for(count * dims), [&](int64_t begin, int64_t end) {
    std::vector<T> line = line_of<T>(others.tile());
    for (int64_t entry = begin / rows; entry * rows < end; ++entry)
      each_tile(others, std::max(begin, entry * rows), std::min(end, (entry + 1) * rows),
                [&](int64_t row, int64_t first, int64_t last) {
                  distances_to(p, x1.elements<T>() + row * dims, others.from<T>(entry, first),
                               last - first, line.data());
                  std::copy_n(line.data(), last - first, y.elements<T>() + row * count + first);
                });
  });
}

// Rows of gradients and distances, whose points [first, last) are brought to the begin of a line.
template <class T>
class GradLines {
 public:
  explicit GradLines(int64_t count) : grad_(line_of<T>(count)), distance_(grad_) {}
  void add(double p, const T* point, const Points<T>& others, const T* grad, const T* distance,
           int64_t count, T* sums) {
    std::copy_n(grad, count, grad_.data());
    std::copy_n(distance, count, distance_.data());
    std::fill_n(grad_.data() + count, kPointVectors, T(0));
    std::fill_n(distance_.data() + count, kPointVectors, T(0));
    add_distance_grads(p, point, others, count, grad_.data(), distance_.data(), sums);
  }

 private:
  std::vector<T> grad_, distance_;
};

template <class T>
void all_grads(const Tensor& grad, const Tensor& x1, const Laid& others, const Tensor& distance,
               double p, Tensor& y) {
  const int64_t rows = x1.size(-2), dims = others.dims, count = others.count;
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(sizeof(T)));
  parallel_for(batch_of(x1) * rows, grain_for(count * dims), [&](int64_t begin, int64_t end) {
    GradLines<T> lines(others.tile());
    for (int64_t entry = begin / rows; entry * rows < end; ++entry)
      each_tile(others, std::max(begin, entry * rows), std::min(end, (entry + 1) * rows),
                [&](int64_t row, int64_t first, int64_t last) {
                  const int64_t at = row * count + first;
                  lines.add(p, x1.elements<T>() + row * dims, others.from<T>(entry, first),
                            grad.elements<T>() + at, distance.elements<T>() + at, last - first,
                            y.elements<T>() + row * dims);
                });
  });
}

// Where the pairs of point i of n begin that follow it: (i, i + 1), (i, i + 2), ...
int64_t pair_at(int64_t n, int64_t i) { return i * n - i * (i + 1) / 2; }

template <class T>
void pair_distances(const Tensor& x, const Laid& points, double p, Tensor& y) {
  const int64_t n = points.count, dims = points.dims;
  parallel_for(n, grain_for(n * dims / 2 + 1), [&](int64_t begin, int64_t end) {
    std::vector<T> line = line_of<T>(points.tile());
    each_tile(points, begin, end, [&](int64_t row, int64_t first, int64_t last) {
      const int64_t from = std::max(first, row + 1);
      if (from >= last) return;
      distances_to(p, x.elements<T>() + row * dims, points.from<T>(0, from), last - from,
                   line.data());
      std::copy_n(line.data(), last - from, y.elements<T>() + pair_at(n, row) + from - row - 1);
    });
  });
}

// What the pairs hold for point i and each of the n, 0 for itself.
template <class T>
void spread_pairs(const T* pairs, int64_t n, int64_t i, T* row) {
  for (int64_t j = 0; j < i; ++j) row[j] = pairs[pair_at(n, j) + i - j - 1];
  row[i] = T(0);
  std::copy_n(pairs + pair_at(n, i), n - i - 1, row + i + 1);
}

template <class T>
void pair_grads(const Tensor& grad, const Tensor& x, const Laid& points, const Tensor& distance,
                double p, Tensor& y) {
  const int64_t n = points.count, dims = points.dims;
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(sizeof(T)));
  parallel_for(n, grain_for(n * dims), [&](int64_t begin, int64_t end) {
    std::vector<T> gradients = line_of<T>(n), lengths = line_of<T>(n);
    for (int64_t i = begin; i < end; ++i) {
      stop_if_requested();
      spread_pairs(grad.elements<T>(), n, i, gradients.data());
      spread_pairs(distance.elements<T>(), n, i, lengths.data());
      add_distance_grads(p, x.elements<T>() + i * dims, points.from<T>(0, 0), n, gradients.data(),
                         lengths.data(), y.elements<T>() + i * dims);
    }
  });
}

// Runs body(T(), work) where y is to be computed in T.
template <class Body>
void computed(Tensor& y, Body&& body) {
  const DType dtype = compute_dtype(y.dtype());
  Tensor work = workspace(y, dtype);
  visit<kComputed>(dtype, [&]<class T>() { body(T(), work); });
  write_back(y, work);
}

// The same for distances: those that are too large for floats are made of doubles.
template <class Body>
void computed_distances(Tensor& y, Body&& body) {
  computed(y, [&]<class T>(T, Tensor& work) {
    body(T(), work);
    if constexpr (std::is_same_v<T, float>) {
      const float *first = work.elements<float>(), *last = first + work.numel();
      if (std::all_of(first, last, [](float v) { return std::isfinite(v); })) return;
      Tensor wide = empty_plain(work.sizes(), {DType::Float64, work.device()}, "cdist");
      body(double(), wide);
      copy_into(work, wide);
    }
  });
}

}  // namespace

void native_cdist(const Tensor& x1, const Tensor& x2, double p, Tensor& y) {
  if (y.numel() == 0) return;
  computed_distances(y, [&]<class T>(T, Tensor& work) {
    all_distances<T>(converted(x1, work.dtype()), Laid(converted(x2, work.dtype())), p, work);
  });
}

void cdist_grad_x1(const Tensor& grad, const Tensor& x1, const Tensor& x2, const Tensor& distance,
                   double p, Tensor& y) {
  if (y.numel() == 0) return;
  computed(y, [&]<class T>(T, Tensor& work) {
    const auto in = [&](const Tensor& t) { return converted(t, work.dtype()); };
    all_grads<T>(in(grad), in(x1), Laid(in(x2)), in(distance), p, work);
  });
}

void native_pdist(const Tensor& x, double p, Tensor& y) {
  if (y.numel() == 0) return;
  computed_distances(y, [&]<class T>(T, Tensor& work) {
    const Tensor points = converted(x, work.dtype());
    pair_distances<T>(points, Laid(points), p, work);
  });
}

void pdist_grad_x(const Tensor& grad, const Tensor& x, const Tensor& distance, double p,
                  Tensor& y) {
  if (y.numel() == 0) return;
  computed(y, [&]<class T>(T, Tensor& work) {
    const auto in = [&](const Tensor& t) { return converted(t, work.dtype()); };
    const Tensor points = in(x);
    pair_grads<T>(in(grad), points, Laid(points), in(distance), p, work);
  });
}

}  // namespace moonlet::cpu
