// tensor/cpu/image/image_grid.h: the positions in images that a grid names, one axis after the
// other, by blocks of positions.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tensor/core/dims.h"
#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

enum class GridBorder { Zeros, Edge, Reflection };
enum class GridMode { Linear, Nearest, Cubic };

inline constexpr int64_t kGridBlock = thresholds::image::kGridBlock;
inline constexpr int kMostGridTaps = 4, kMostGridDims = 3;

// One dimension of the image: how many elements it has, how far apart they are, and how the grid's
// numbers and positions outside are read.
struct GridAxis {
  int64_t size, stride;
  GridBorder border;
  bool align_corners;
};

// Of a block of positions the neighbours along one axis: their positions on it, -1 outside the
// image, their weights and the derivatives of these.
template <class T>
struct GridTaps {
  using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  T weight[kMostGridTaps][kGridBlock], gradient[kMostGridTaps][kGridBlock];
  Position position[kMostGridTaps][kGridBlock];
};

// How a grid (n, positions, dims) names positions in images of some sizes.
struct GridNaming {
  GridNaming(const Dims& size, std::string_view given, std::string_view padding, bool align_corners)
      : dims(size.size()),
        mode(given == "bilinear"  ? GridMode::Linear
             : given == "nearest" ? GridMode::Nearest
                                  : GridMode::Cubic) {
    const GridBorder border = padding == "zeros"    ? GridBorder::Zeros
                              : padding == "border" ? GridBorder::Edge
                                                    : GridBorder::Reflection;
    for (int d = dims - 1; d >= 0; --d) {
      axes[d] = {size[d], whole, border, align_corners};
      whole *= size[d];
      taps *= axis_taps();
    }
  }
  int axis_taps() const { return mode == GridMode::Linear ? 2 : mode == GridMode::Nearest ? 1 : 4; }
  // Which of its neighbours along axis `d` neighbour `k` is.
  int digit(int64_t k, int d) const {
    for (int e = dims - 1; e > d; --e) k /= axis_taps();
    return static_cast<int>(k % axis_taps());
  }
  int dims;
  GridMode mode;
  GridAxis axes[kMostGridDims];
  int64_t whole = 1, taps = 1;
};

// Fills `to`, of each axis, with the neighbours of `count` positions, whose numbers lie one after
// the other; the grid names the last dimension first. For T float and double.
template <class T>
void find_grid_taps(const GridNaming& naming, const T* grid, int64_t count, GridTaps<T>* to);
// Positions (from 1; the one behind the image stands for what is outside) and weights of neighbour
// k of a block of positions. For I int32_t, and int64_t with double.
template <class T, class I>
void write_grid_tap(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int64_t count,
                    I* at, T* weight);
// Adds the derivative of neighbour k's weight along axis d, times `gradient`, to `sums`.
template <class T>
void add_grid_gradient(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int d,
                       int64_t count, const T* gradient, T* sums);

}  // namespace moonlet::cpu
