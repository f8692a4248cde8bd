// tensor/shapes/result.h: what a result of an op looks like before it has memory: the answer of
// the shape functions, which check an op's arguments for every device.
#pragma once

#include <array>
#include <optional>

#include "tensor/core/tensor.h"

namespace moonlet {

namespace shapes {
struct Result {
  Dims sizes;
  Options options;
  std::optional<Dims> strides = {};  // dense ones; row-major without
};
inline Result like(const Tensor& x) { return {x.sizes(), options_of(x)}; }
inline Result like(const Tensor& x, DType dtype) { return {x.sizes(), {dtype, x.device()}}; }
// As x, in `format`, or in the order of x's strides.
Result laid_out_like(const Tensor& x, MemoryFormat format, Options options, const char* op);

// Throws unless both have one shape.
inline void check_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  check(a.sizes() == b.sizes(), op, ": shapes differ: ", a.sizes(), " and ", b.sizes());
}
inline void check_shape(const char* op, const char* argument, const Dims& got, const Dims& wanted) {
  check(got == wanted, op, ": ", argument, " has shape ", got, ", ", wanted, " is expected");
}
}  // namespace shapes

// A new tensor that looks so, contents undefined; `op` is named by errors.
inline Tensor allocate(const shapes::Result& like, const char* op) {
  return like.strides ? empty_strided(like.sizes, *like.strides, like.options, op)
                      : empty_plain(like.sizes, like.options, op);
}

}  // namespace moonlet
