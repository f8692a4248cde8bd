// tensor/cpu/pool/pool_planes.h: what the kernels of pooling share: planes (h, w) of images in the
// dtype that they compute in, and the windows of a row.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/core/plain_copy.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/pool/pool.h"
#include "tensor/functors/pool_window.h"

namespace moonlet::cpu {

inline int64_t planes_of(const Tensor& t) {
  int64_t count = 1;
  for (int i = 0; i + 2 < t.dim(); ++i) count *= t.size(i);
  return count;
}

inline int64_t plane_size(const Tensor& t) { return t.size(-1) * t.size(-2); }

// The planes of a contiguous tensor as T: where they lie or, of another dtype, a run of them at a
// time in a buffer, which the cache keeps.
template <class T>
class Planes {
 public:
  Planes(const Tensor& t, int64_t size, int64_t run)
      : data_(t.raw()), dtype_(t.dtype()), size_(size) {
    if (dtype_ != dtype_of<T>) buffer_.resize(static_cast<size_t>(size * run));
  }

  // Where the planes from p on are made.
  T* elements(int64_t p) {
    return buffer_.empty() ? reinterpret_cast<T*>(data_) + p * size_ : buffer_.data();
  }
  // The same with the elements of `count` planes.
  const T* read(int64_t p, int64_t count) {
    if (!buffer_.empty()) convert(dtype_, dtype_of<T>, plane(p), buffer_.data(), count);
    return elements(p);
  }
  // Brings what was made to the tensor.
  void write(int64_t p, int64_t count) {
    if (!buffer_.empty()) convert(dtype_of<T>, dtype_, buffer_.data(), plane(p), count);
  }

 private:
  char* plane(int64_t p) const { return data_ + p * size_ * size_of(dtype_); }
  void convert(DType from_type, DType to_type, const void* from, void* to, int64_t count) const {
    const DenseConverter all = dense_converter(from_type, to_type);
    serial_for(size_ * count, 1, [&](int64_t begin, int64_t end) {
      all(static_cast<const char*>(from) + begin * size_of(from_type),
          static_cast<char*>(to) + begin * size_of(to_type), static_cast<size_t>(end - begin));
    });
  }

  char* data_;
  const DType dtype_;
  const int64_t size_;
  std::vector<T> buffer_;
};

inline constexpr int64_t kConverted = thresholds::pool::kConverted;
inline constexpr int64_t kLongRun = thresholds::pool::kLongRun;

// Makes the planes of `out` of those of `in` by body(plane of in, plane of out, its number), of
// which each thread has one from make(); `work` is the cost of one plane.
template <class T, class Make>
void each_plane(const Tensor& in, Tensor& out, int64_t work, Make&& make) {
  const int64_t from_size = plane_size(in), to_size = plane_size(out);
  const int64_t run = std::max<int64_t>(1, kConverted / std::max<int64_t>(1, from_size + to_size));
  parallel_for(planes_of(out), grain_for(work), [&](int64_t begin, int64_t end) {
    auto body = make();
    Planes<T> from(in, from_size, run), to(out, to_size, run);
    for (int64_t p = begin; p < end; p += run) {
      const int64_t count = std::min(run, end - p);
      const T* x = from.read(p, count);
      T* y = to.elements(p);
      for (int64_t i = 0; i < count; ++i) body(x + i * from_size, y + i * to_size, p + i);
      to.write(p, count);
    }
  });
}

// The outputs along x whose windows lie inside the plane: [begin, end).
struct Inside {
  int64_t begin, end;
};
inline Inside inside(const PoolWindow& w) {
  const PoolAxis& a = w.x;
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  if (w.adaptive || reach > a.size) return {a.out, a.out};
  const int64_t begin = std::min(a.out, (a.pad + a.stride - 1) / a.stride);
  const int64_t end = std::min(a.out, (a.size - reach + a.pad) / a.stride + 1);
  return {begin, std::max(begin, end)};
}

// The windows of the outputs from `ox` on of a row, `ys` high, all of them inside the plane.
template <class T>
PoolRow<T> row_of(const PoolWindow& w, const T* in, const PoolSpan& ys, int64_t ox, int64_t count) {
  return {.in = in + ys.begin * w.x.size + ox * w.x.stride - w.x.pad,
          .windows = count,
          .stride = w.x.stride,
          .rows = (ys.end - ys.begin + w.y.dilation - 1) / w.y.dilation,
          .row_step = w.y.dilation * w.x.size,
          .taps = w.x.kernel,
          .tap_step = w.x.dilation};
}

}  // namespace moonlet::cpu
