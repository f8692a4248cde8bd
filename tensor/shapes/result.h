// tensor/shapes/result.h: what a result of an op looks like before it has memory: the answer of
// the shape functions, which check an op's arguments for every device.
#pragma once

#include <array>

#include "tensor/tensor.h"

namespace moonlet {

namespace shapes {
struct Result {
  Dims sizes;
  Options options;
};
inline Result like(const Tensor& x) { return {x.sizes(), options_of(x)}; }
inline Result like(const Tensor& x, DType dtype) { return {x.sizes(), {dtype, x.device()}}; }
}  // namespace shapes

// A new tensor that looks so, contents undefined; `op` is named by errors.
inline Tensor allocate(const shapes::Result& like, const char* op) {
  return empty(like.sizes, like.options, op);
}

}  // namespace moonlet
