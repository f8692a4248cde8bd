// cuda/emulated/cudnn_loops.h: a convolution as its descriptors say it, and the loops that compute
// it.
#pragma once

#include <array>
#include <cstdint>

#include "cudnn.h"

namespace moonlet::emulated {

/// Sizes and strides of (n, c, depth, height, width); images have depth 1.
struct View {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int count = 0;  // dimensions, 3 to 5; 0 before it is set
  std::array<std::int64_t, 5> size{}, stride{};

  std::int64_t elements() const {
    std::int64_t out = 1;
    for (const std::int64_t n : size) out *= n;
    return out;
  }
  std::size_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < 5; ++d) last += (size[d] - 1) * stride[d];
    const std::size_t each = type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
    return (static_cast<std::size_t>(last) + 1) * each;
  }
  bool channels_last() const { return size[1] > 1 && stride[1] == 1 && elements() > size[1]; }
};

}  // namespace moonlet::emulated

struct cudnnTensorStruct {
  moonlet::emulated::View view;
};

struct cudnnConvolutionStruct {
  int axes = 0, groups = 1;
  std::array<std::int64_t, 3> padding{}, stride{}, dilation{};
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace moonlet::emulated {

enum class Kind { Forward, Data, Filter };

/// A convolution whose descriptors belong together.
struct Shape {
  View x, w, y;
  cudnnConvolutionStruct conv;
};

struct Data {
  const void *x, *w, *y;  // one of them is written
};

/// The number at a position of elements of that type, as TF32 holds it where that is said of
/// float32; and its way back.
double load(const void* from, cudnnDataType_t type, std::int64_t at, bool tf32);
void store(double x, void* to, cudnnDataType_t type, std::int64_t at);

/// alpha times what the kind says, plus beta times what is there.
void compute(Kind kind, const Shape& s, const Data& at, double alpha, double beta);

}  // namespace moonlet::emulated
