// tensor/cpu/conv/conv_parts.h: a convolution cut into parts where it is large, so that a request
// to stop is met soon: some of the images, or tiles of one.
#pragma once

#include "tensor/cpu/conv/conv.h"

namespace moonlet::cpu {

enum class ConvPass : int64_t { Forward, InputGrad, WeightGrad };

// The tensors of a pass. Its result is y, x or weight; the others of these are read. The gradients
// have no bias.
struct ConvTensors {
  Tensor x, weight, bias, y;
};

// Computes a pass in one go; false when it has no implementation for the shape.
using ConvRun = bool (*)(ConvPass pass, const ConvShape& s, const ConvTensors& t);

// Whether a pass is one part of at most `work` multiply-adds per thread.
bool fits_one_part(ConvPass pass, const ConvShape& s, double work);

// Computes a pass by parts of at most `work` multiply-adds per thread, or as little above as one
// position of the output costs; an image is left whole when its tiles have no implementation. All
// tensors are float32 where there are parts, and lie as in conv.h. After false, what the result
// holds is undefined.
bool conv_in_parts(ConvPass pass, const ConvShape& s, const ConvTensors& t, double work,
                   ConvRun run);

}  // namespace moonlet::cpu
