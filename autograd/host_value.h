// autograd/host_value.h: an element as a C++ value, for checks that look at values.
#pragma once

#include <string>

#include "tensor/core/tensor.h"

namespace moonlet {

// Whether its elements can be looked at: those of a tensor inside vmap are many at once, and checks
// of them are left out there.
inline bool has_values(const Tensor& x) { return !x.device().is_batched(); }

// Inside vmap the elements of all samples, for questions about the whole batch; else x itself.
Tensor all_samples(const Tensor& x);

// x as `dtype` on the CPU. Throws inside vmap.
Tensor on_host(const Tensor& x, DType dtype);

// Throws `text`, the whole of an error, unless all elements of a bool tensor hold. On a device
// whose errors are deferred that is found out there, and thrown at the next wait for it. Inside
// vmap nothing is looked at.
void expect_all(const Tensor& holds, const std::string& text);

// The one element of x, wherever it is.
template <class T>
T host_value(const Tensor& x) {
  return *on_host(x, dtype_of<T>).template data<T>();
}

}  // namespace moonlet
