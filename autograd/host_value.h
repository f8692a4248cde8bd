// autograd/host_value.h: an element as a C++ value, for checks that look at values.
#pragma once

#include "autograd/ops_convert.h"

namespace moonlet {

// The one element of x, wherever it is.
template <class T>
T host_value(const Tensor& x) {
  return *to(x, dtype_of<T>, Device{}).template data<T>();
}

}  // namespace moonlet
