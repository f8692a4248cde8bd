// interp/binding/cuda/pinned.cpp: tensors in page-locked memory, from which copies to a GPU are
// quicker.
#include "interp/binding/arg_reader.h"
#include "interp/binding/uses_pinned.h"
#include "tensor/core/layout.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

// A storage of page-locked memory with one reference.
Storage* pinned_storage(Backend& backend, size_t bytes) {
  memory::Budget* budget = memory::account.budget;
  if (budget != nullptr) budget->charge(bytes);
  void* data = nullptr;
  const auto release = [&backend, budget, bytes](void* memory) {
    if (memory != nullptr) backend.unpin_memory(memory, bytes);
    if (budget != nullptr) budget->refund(bytes);
  };
  try {
    data = backend.pin_memory(bytes);
    return Storage::foreign(data, bytes, {}, [release, data] { release(data); });
  } catch (const std::exception&) {
    release(data);
    throw;
  }
}

bool is_pinned(const Tensor& x) {
  if (!x.device().is_cpu() || x.numel() == 0 || x.storage().stand_in() != nullptr) return false;
  Backend* backend = cuda_backend();
  return backend != nullptr && backend->is_pinned(x.storage().data());
}

constexpr ArgSpec kPinArgs[] = {{"x", ArgType::Tensor}};

int l_pin_memory(lua_State* L) {
  static const Signature kSignature = {"pin_memory", "pin_memory(x)", kPinArgs,
                                       std::size(kPinArgs)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  check(x.device().is_cpu(), "pin_memory: only tensors on the CPU are pinned, this one is on ",
        x.device());
  Backend* backend = cuda_backend();
  if (backend == nullptr) fail("pin_memory: CUDA is not available: ", cuda_unavailable_reason());
  if (x.numel() == 0 || is_pinned(x)) return push_result(L, x);
  const auto bytes = static_cast<size_t>(x.numel()) * static_cast<size_t>(size_of(x.dtype()));
  Storage* storage = pinned_storage(*backend, bytes);
  Tensor out;
  try {
    out = view_of(*storage, x.sizes(), dense_strides(x.sizes(), x.strides()), 0, x.dtype(),
                  "pin_memory");
  } catch (const std::exception&) {
    storage->release();
    throw;
  }
  storage->release();
  copy_(out, x);
  gc::allocated(L, static_cast<int64_t>(bytes));
  return push_result(L, out);
}

int l_is_pinned(lua_State* L) {
  static const Signature kSignature = {"is_pinned", "is_pinned(x)", kPinArgs, std::size(kPinArgs)};
  ArgReader args(L, kSignature);
  return push_result(L, is_pinned(args.tensor(0)));
}

}  // namespace

void register_pinned(lua_State* L) {
  static const luaL_Reg kMethods[] = {{"pin_memory", op_guard<l_pin_memory>},
                                      {"is_pinned", guard<l_is_pinned>},
                                      {nullptr, nullptr}};
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
