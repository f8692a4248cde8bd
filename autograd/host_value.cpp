// autograd/host_value.cpp: copies to the CPU, and checks of values.
#include "autograd/host_value.h"

#include "autograd/uses_host_value.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

Tensor all_samples(const Tensor& x) {
  Tensor out = x;
  while (const Batched* b = batched(out)) {
    const Tensor value = b->value;  // out may be what keeps it
    out = value;
  }
  return out;
}

Tensor on_host(const Tensor& x, DType dtype) {
  check(has_values(x), "elements of a tensor inside vmap cannot be looked at one by one");
  return to(x, dtype, Device{});
}

void expect_all(const Tensor& holds, const std::string& text) {
  if (!has_values(holds)) return;
  if (holds.device().is_cpu())
    check(host_value<bool>(all(holds)), text);
  else
    cuda_backend()->expect_all(holds, text);
}

}  // namespace moonlet
