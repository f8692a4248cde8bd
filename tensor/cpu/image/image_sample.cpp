// tensor/cpu/image/image_sample.cpp: the CPU kernels of weighted sums of the elements of planes at
// listed positions, and of their gradients. They are linear in the elements and in the weights, so
// that each gradient is one of the three.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/image/image.h"
#include "tensor/kernels_image.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

// n entries of `channels` planes of `size` elements, each with so many results of so many taps.
struct Sampling {
  int64_t n, channels, size, taps, results;
  int64_t planes() const { return n * channels; }
};

Sampling sampling_of(const Tensor& at, int64_t channels, int64_t size) {
  return {at.size(0), channels, size, at.size(1), at.size(2)};
}

// Positions of 32 bits reach every element of most planes; the others are computed in float64.
DType dtype_for(const Sampling& s, DType own) {
  const bool fits = s.size < std::numeric_limits<int32_t>::max();
  return fits ? compute_dtype(own) : DType::Float64;
}

template <class T>
using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// The positions, from 1, as integers of T's size; the one behind the plane stands for nothing.
template <class T>
Tensor positions_of(const char* op, const Tensor& at, int64_t size) {
  const Tensor source = contiguous(at);
  visit<bit(DType::Int64) | bit(DType::Int32)>(at.dtype(), [&]<class I>() {
    using U = std::make_unsigned_t<I>;
    const I* from = source.elements<I>();
    const U most = static_cast<U>(std::min<int64_t>(size, std::numeric_limits<I>::max()));
    serial_for(at.numel(), 1, [=](int64_t begin, int64_t end) {
      U wrong = 0;
      for (int64_t i = begin; i < end; ++i)
        wrong |= static_cast<U>(from[i]) - U(1) > most ? U(1) : U(0);
      if (wrong == 0) return;
      for (int64_t i = begin; i < end; ++i)
        if (from[i] < 1 || from[i] > size + 1) shapes::fail_position(op, from[i], size + 1);
    });
  });
  return converted(source, dtype_of<Position<T>>);
}

// What lies around a plane that positions from 1 name, of which the last stands for nothing.
constexpr int64_t kBefore = 1, kAround = 2;

// The planes with a zero behind each, and one in front.
template <class T>
std::unique_ptr<T[]> padded(const Tensor& x, const Sampling& s) {
  const Tensor source = converted(x, dtype_of<T>);
  const int64_t room = s.size + kAround;
  std::unique_ptr<T[]> out(new T[static_cast<size_t>(s.planes() * room)]);
  parallel_for(s.planes(), grain_for(s.size), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* plane = out.get() + p * room;
      copy_bytes(plane + kBefore, source.elements<T>() + p * s.size,
                 s.size * static_cast<int64_t>(sizeof(T)));
      plane[0] = plane[room - 1] = T(0);
    }
  });
  return out;
}

}  // namespace

void sample_planes(const Tensor& x, const Tensor& at, const Tensor& weight, Tensor& y) {
  const Sampling s = sampling_of(at, x.size(1), x.size(2));
  const DType dtype = dtype_for(s, x.dtype());
  const Tensor factor = converted(weight, dtype);
  Tensor out = workspace(y, dtype);
  visit_compute<dtypes::floating>(dtype, [&]<class T>() {
    const Tensor positions = positions_of<T>("sample_planes", at, s.size);
    const auto planes = padded<T>(x, s);
    parallel_for(s.planes(), grain_for(s.results * s.taps), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p / s.channels * s.taps * s.results;
        const LineTaps<T, Position<T>> line{s.taps, s.results,
                                            positions.elements<Position<T>>() + first,
                                            factor.elements<T>() + first};
        serial_for(s.results, s.taps, [&](int64_t from, int64_t to) {
          weigh_line(line, planes.get() + p * (s.size + kAround), from, to,
                     out.elements<T>() + p * s.results);
        });
      }
    });
  });
  write_back(y, out);
}

void sample_planes_grad_x(const Tensor& grad, const Tensor& at, const Tensor& weight, int64_t size,
                          Tensor& y) {
  const Sampling s = sampling_of(at, grad.size(1), size);
  const DType dtype = dtype_for(s, grad.dtype());
  const Tensor gradient = converted(grad, dtype), factor = converted(weight, dtype);
  Tensor out = workspace(y, dtype);
  visit_compute<dtypes::floating>(dtype, [&]<class T>() {
    const Tensor positions = positions_of<T>("sample_planes_grad_x", at, s.size);
    parallel_for(s.planes(), grain_for(s.results * s.taps + s.size), [&](int64_t b, int64_t e) {
      std::vector<T> sums(static_cast<size_t>(s.size + kAround));
      for (int64_t p = b; p < e; ++p) {
        std::fill(sums.begin(), sums.end(), T(0));
        const T* g = gradient.elements<T>() + p * s.results;
        const int64_t first = p / s.channels * s.taps * s.results;
        for (int64_t k = 0; k < s.taps; ++k) {
          const Position<T>* to = positions.elements<Position<T>>() + first + k * s.results;
          const T* w = factor.elements<T>() + first + k * s.results;
          serial_for(s.results, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(to[i])] += w[i] * g[i];
          });
        }
        copy_bytes(out.elements<T>() + p * s.size, sums.data() + kBefore,
                   s.size * static_cast<int64_t>(sizeof(T)));
      }
    });
  });
  write_back(y, out);
}

void sample_planes_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& at, Tensor& y) {
  const Sampling s = sampling_of(at, x.size(1), x.size(2));
  const DType dtype = dtype_for(s, x.dtype());
  const Tensor gradient = converted(grad, dtype);
  Tensor out = workspace(y, dtype);
  visit_compute<dtypes::floating>(dtype, [&]<class T>() {
    const Tensor positions = positions_of<T>("sample_planes_grad_weight", at, s.size);
    const auto planes = padded<T>(x, s);
    const int64_t work = s.results * s.channels;
    parallel_for(s.n * s.taps, grain_for(work), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* sums = out.elements<T>() + row * s.results;
        zero_bytes(sums, s.results * static_cast<int64_t>(sizeof(T)));
        const int64_t first = row / s.taps * s.channels;
        serial_for(s.channels, s.results, [&](int64_t from, int64_t to) {
          for (int64_t p = first + from; p < first + to; ++p)
            add_products(positions.elements<Position<T>>() + row * s.results,
                         planes.get() + p * (s.size + kAround),
                         gradient.elements<T>() + p * s.results, s.results, sums);
        });
      }
    });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu
