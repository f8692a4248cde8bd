// tensor/io/bytes.h: the elements of tensors as the bytes that files hold.
#pragma once

#include <string>
#include <string_view>

#include "tensor/core/tensor.h"

namespace moonlet::io {

// The tensor's elements in row order in host memory, outside the tape; `x` itself where they are.
Tensor host_rows(const Tensor& x, const char* op);
// The bytes of a tensor that host_rows gave, which must outlive them.
std::string_view bytes_of(const Tensor& rows);
// Throws Error when a byte of a bool tensor is neither 0 nor 1; other dtypes take any bytes.
void check_bool_bytes(const Tensor& x, const std::string& what);

}  // namespace moonlet::io
