// interp/binding/autograd/saved_hooks.cpp: Lua functions that decide in what form the tape keeps
// tensors (autograd/saved_hooks.h). stdlib/autograd/graph.lua has what scripts call.
#include "autograd/saved_hooks.h"

#include "interp/binding/autograd/held.h"
#include "interp/binding/autograd/mode_guard.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "autograd.graph.saved_tensors_hooks";

class PackedValue final : public PackedTensor {
 public:
  PackedValue(lua_State* L, int index, const Tensor& saved, std::shared_ptr<HeldValue> unpack)
      : saved_(saved), value_(L, index), unpack_(std::move(unpack)) {}

  Tensor unpack() const override {
    Tensor out;
    unpack_->with("saved_tensors_hooks: unpack", [&](lua_State* L) {
      if (!value_.push(L)) fail("saved_tensors_hooks: what was packed is in another interpreter");
      lua_call(L, 1, 1);
      const Tensor* cell = tensor_cell(L, -1);
      if (cell == nullptr || !cell->defined())
        fail("saved_tensors_hooks: unpack must return a tensor, got ", type_name(L, -1));
      note_seen(L, -1);
      out = *cell;
    });
    if (!(out.sizes() == saved_.sizes) || out.dtype() != saved_.options.dtype ||
        out.device() != saved_.options.device)
      fail("saved_tensors_hooks: unpack must give what was saved, of shape ", saved_.sizes, ", ",
           saved_.options.dtype, " on ", saved_.options.device, ", got shape ", out.sizes(), ", ",
           out.dtype(), " on ", out.device());
    return out;
  }

 private:
  const OutputMeta saved_;
  const HeldValue value_;
  const std::shared_ptr<HeldValue> unpack_;
};

class LuaSavedHooks final : public SavedTensorHooks {
 public:
  explicit LuaSavedHooks(lua_State* L)
      : pack_(std::make_shared<HeldValue>(L, 1)), unpack_(std::make_shared<HeldValue>(L, 2)) {}

  std::shared_ptr<PackedTensor> pack(const Tensor& t) override {
    std::shared_ptr<PackedTensor> out;
    const std::shared_ptr<HeldValue> pack = pack_, unpack = unpack_;
    pack->with("saved_tensors_hooks: pack", [&](lua_State* L) {
      push_result(L, t);
      lua_call(L, 1, 1);
      note_seen(L, -1);
      out = std::make_shared<PackedValue>(L, -1, t, unpack);
    });
    return out;
  }

 private:
  const std::shared_ptr<HeldValue> pack_, unpack_;
};

// pack, unpack -> the guard
int l_saved_tensors_hooks(lua_State* L) {
  const auto* refused =
      find_mode<NoSavedTensorHooks>([](const NoSavedTensorHooks&) { return true; });
  if (refused) throw Error(refused->message());
  release_waiting(L);
  push_mode_guard(L, std::make_shared<LuaSavedHooks>(L), kName);
  return 1;
}

// message -> the guard
int l_no_saved_tensors_hooks(lua_State* L) {
  const char* op = "autograd.graph.disable_saved_tensors_hooks";
  check(find_mode<SavedTensorHooks>([](const SavedTensorHooks&) { return true; }) == nullptr, op,
        ": hooks are active here");
  push_mode_guard(L, std::make_shared<NoSavedTensorHooks>(luaL_checkstring(L, 1)), op);
  return 1;
}

// A number for the node whose saved tensor is unpacked now, 0 for none.
int l_unpacking_node(lua_State* L) {
  return push_result(L, static_cast<int64_t>(reinterpret_cast<intptr_t>(unpacking_node)));
}

}  // namespace

void register_saved_hooks(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_saved_tensors_hooks", guard<l_saved_tensors_hooks>},
                                     {"_no_saved_tensors_hooks", guard<l_no_saved_tensors_hooks>},
                                     {"_unpacking_node", guard<l_unpacking_node>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
