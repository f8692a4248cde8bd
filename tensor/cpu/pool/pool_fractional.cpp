// tensor/cpu/pool/pool_fractional.cpp: the CPU kernel of pooling by windows that lie at random
// positions.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"

namespace moonlet::cpu {
namespace {

constexpr int kAxes = 3;
using Axes = std::array<int64_t, kAxes>;

// The last axes; images are volumes of one plane.
Axes axes_of(const Dims& dims, int skipped) {
  Axes out{1, 1, 1};
  std::copy(dims.begin() + skipped, dims.end(), out.end() - (dims.size() - skipped));
  return out;
}

struct Windows {
  Axes size, out, kernel;
  int dims;
};

// Where the windows along an axis begin, for a shift from 0 to 1. The last one ends with the axis.
template <class T>
void begins(int64_t size, int64_t out, int64_t kernel, T shift, int64_t* to) {
  const int64_t last = size - kernel;
  const T step = out > 1 ? T(double(last) / double(out - 1)) : T(0),
          first = std::floor(shift * step);
  for (int64_t i = 0; i + 1 < out; ++i) {
    const T begin = std::floor((T(i) + shift) * step) - first;
    to[i] = begin >= T(0) ? static_cast<int64_t>(std::min(begin, T(last))) : 0;
  }
  to[out - 1] = last;
}

// What is compared: 16-bit floats as float32.
template <class T>
auto number(T x) {
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
    return static_cast<float>(x);
  else
    return x;
}

// The number of the largest element of the window at (z, y, x) of a piece; of equal ones the first,
// and NaN before all.
template <class T>
int64_t largest(const Windows& w, const T* piece, int64_t z, int64_t y, int64_t x) {
  int64_t found = (z * w.size[1] + y) * w.size[2] + x;
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      const int64_t line = ((z + i) * w.size[1] + y + j) * w.size[2] + x;
      for (int64_t k = line; k < line + w.kernel[2]; ++k) {
        const auto value = number(piece[k]), most = number(piece[found]);
        if (value > most || (value != value && most == most)) found = k;
      }
    }
  return found;
}

template <class T, class S>
void pool(const Windows& w, const Tensor& x, const Tensor& shifts, Tensor& values,
          Tensor& indices) {
  const int64_t whole = w.size[0] * w.size[1] * w.size[2],
                positions = w.out[0] * w.out[1] * w.out[2];
  const int64_t work = positions * w.kernel[0] * w.kernel[1] * w.kernel[2];
  parallel_for(x.size(0), grain_for(work), [&](int64_t from, int64_t to) {
    std::array<std::vector<int64_t>, kAxes> at;
    for (int a = 0; a < kAxes; ++a) at[a].resize(static_cast<size_t>(w.out[a]));
    for (int64_t n = from; n < to; ++n) {
      stop_if_requested();
      const S* shift = shifts.elements<S>() + n * w.dims;
      // The first number of images is that of their width, of volumes that of their depth.
      for (int a = 0; a < kAxes; ++a) {
        const int own = a - (kAxes - w.dims), named = w.dims == 2 ? 1 - own : own;
        begins(w.size[a], w.out[a], w.kernel[a], own < 0 ? S(0) : shift[named], at[a].data());
      }
      const T* piece = x.elements<T>() + n * whole;
      T* value = values.elements<T>() + n * positions;
      int64_t* index = indices.elements<int64_t>() + n * positions;
      for (const int64_t z : at[0])
        for (const int64_t y : at[1])
          for (const int64_t column : at[2]) {
            const int64_t found = largest(w, piece, z, y, column);
            *value++ = piece[found];
            *index++ = found + 1;
          }
    }
  });
}

}  // namespace

void native_fractional_max_pool(const Tensor& x, const Tensor& shifts, const Dims& kernel,
                                const Dims& output_size, Tensor& values, Tensor& indices) {
  if (values.numel() == 0) return;
  const Windows w{axes_of(x.sizes(), 1), axes_of(output_size, 0), axes_of(kernel, 0),
                  kernel.size()};
  const DType wide = compute_dtype(shifts.dtype());
  const Tensor pieces = contiguous(x), samples = converted(shifts, wide);
  with_contiguous(values, [&](Tensor& best) {
    with_contiguous(indices, [&](Tensor& at) {
      visit<dtypes::real>(x.dtype(), [&]<class T>() {
        visit<bit(DType::Float32) | bit(DType::Float64)>(
            wide, [&]<class S>() { pool<T, S>(w, pieces, samples, best, at); });
      });
    });
  });
}

}  // namespace moonlet::cpu
