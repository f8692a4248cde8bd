// tensor/program/program_data.cpp: copies of tensors with all the memory that they lie on.
#include "tensor/program/program_data.h"

#include "tensor/core/dispatch.h"
#include "tensor/core/plain_copy.h"

namespace moonlet::program {

Tensor bytes_of_storage(const Tensor& t) {
  return view_of(t.storage(), {static_cast<int64_t>(t.storage().bytes())}, {1}, 0, DType::UInt8);
}

Tensor copy_with_storage(const Tensor& t) {
  const Tensor copy = clone_plain(bytes_of_storage(t));
  return view_of(copy.storage(), t.sizes(), t.strides(), t.offset(), t.dtype());
}

void copy_storage(const Tensor& to, const Tensor& from) {
  Tensor bytes = bytes_of_storage(to);
  copy_plain(bytes, bytes_of_storage(from), "program");
}

}  // namespace moonlet::program
