// tensor/io/idx.h: IDX files, the format of MNIST.
#pragma once

#include <string>

#include "tensor/core/tensor.h"

namespace moonlet::io {

// An IDX file, which may be gzip, as a tensor of its shape and type: uint8, int8, int16, int32,
// float32 or float64. Throws Error "OP: 'PATH' ..." for one that is damaged or cut short, and where
// reading takes more than `max_bytes` (0: 512 MiB, or 256 times the file's size where that is
// more).
Tensor read_idx(const std::string& path, const char* op = "read_idx", int64_t max_bytes = 0);

}  // namespace moonlet::io
