// interp/binding/device/pinned.cpp: tensors in page-locked memory, from which copies to a device
// are quicker.
#include "interp/binding/arg_reader.h"
#include "interp/binding/uses_pinned.h"
#include "tensor/core/layout.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {
namespace {

// A storage of page-locked memory with one reference.
Storage* pinned_storage(PinnedMemory& pinned, size_t bytes) {
  memory::Budget* budget = memory::account.budget;
  if (budget != nullptr) budget->charge(bytes);
  void* data = nullptr;
  const auto release = [&pinned, budget, bytes](void* memory) {
    if (memory != nullptr) pinned.release(memory, bytes);
    if (budget != nullptr) budget->refund(bytes);
  };
  try {
    data = pinned.allocate(bytes);
    return Storage::foreign(data, bytes, {}, [release, data] { release(data); });
  } catch (const std::exception&) {
    release(data);
    throw;
  }
}

bool is_pinned(const Tensor& x) {
  if (!x.device().is_cpu() || x.numel() == 0 || x.storage().stand_in() != nullptr) return false;
  PinnedMemory* pinned = pinned_memory();
  return pinned != nullptr && pinned->holds(x.storage().data());
}

// Says of each kind of device why it locks no pages.
[[noreturn]] void refuse_pinning() {
  std::string why;
  for (const DeviceType type : device_types()) {
    if (type == DeviceType::CPU) continue;
    if (!why.empty()) why += "; ";
    if (backend_of(type) != nullptr)
      why += text(title_of(type), " has no page-locked memory");
    else
      why += text(title_of(type), " is not available: ", unavailable_reason(type));
  }
  fail("pin_memory: ", why);
}

constexpr ArgSpec kPinArgs[] = {{"x", ArgType::Tensor}};

int l_pin_memory(lua_State* L) {
  static const Signature kSignature = {"pin_memory", "pin_memory(x)", kPinArgs,
                                       std::size(kPinArgs)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  check(!x.device().is_batched(), "pin_memory: a tensor inside vmap has no memory of its own");
  check(x.device().is_cpu(), "pin_memory: only tensors on the CPU are pinned, this one is on ",
        x.device());
  PinnedMemory* pinned = pinned_memory();
  if (pinned == nullptr) refuse_pinning();
  if (x.numel() == 0 || is_pinned(x)) return push_result(L, x);
  const auto bytes = static_cast<size_t>(x.numel()) * static_cast<size_t>(size_of(x.dtype()));
  Storage* storage = pinned_storage(*pinned, bytes);
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
