// autograd/host_value.h: an element as a C++ value, for checks that look at values.
#pragma once

#include "tensor/tensor.h"

namespace moonlet {

// x as `dtype` on the CPU.
Tensor on_host(const Tensor& x, DType dtype);

// The one element of x, wherever it is.
template <class T>
T host_value(const Tensor& x) {
  return *on_host(x, dtype_of<T>).template data<T>();
}

}  // namespace moonlet
