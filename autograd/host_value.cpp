// autograd/host_value.cpp: copies to the CPU, and checks of values.
#include "autograd/host_value.h"

#include "autograd/uses_host_value.h"
#include "tensor/program/captured_call.h"
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
  program::note_values_read("a check of values");
  return to(x, dtype, Device{});
}

void expect_all(const Tensor& holds, const std::string& text) {
  if (!has_values(holds)) return;
  Backend* const backend = opened_backend(holds.device().type);
  DeferredErrors* const errors = backend != nullptr ? backend->deferred_errors() : nullptr;
  if (errors != nullptr) return errors->expect_all(holds, text);
  check(host_value<bool>(all(holds)), text);
}

}  // namespace moonlet
