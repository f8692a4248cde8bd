// tensor/io/idx.h: IDX files, the format of MNIST.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace moonlet::io {

// An IDX file, which may be gzip, as a tensor of its shape and type: uint8, int8, int16, int32,
// float32 or float64. Throws Error "OP: 'PATH' ..." for one that is damaged or cut short.
Tensor read_idx(const std::string& path, const char* op = "read_idx");

}  // namespace moonlet::io
