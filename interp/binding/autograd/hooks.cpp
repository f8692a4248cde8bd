// interp/binding/autograd/hooks.cpp: Lua functions as hooks of the tape: their registration, call
// and end.
#include "interp/binding/autograd/hooks.h"

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/held.h"
#include "interp/binding/autograd/homes.h"
#include "tensor/program/captured_call.h"

namespace moonlet {

void release_waiting(lua_State* L) {
  StateData& data = state_data(L);
  if (!data.releases->has_waiting()) return;
  if (lua_checkstack(L, 6) == 0) return;  // another time
  const ReleaseQueue::Batch batch = data.releases->take();
  for (const int reference : batch.references) luaL_unref(L, LUA_REGISTRYINDEX, reference);
  for (const int64_t id : batch.hooks) binding::forget_function(L, id);
}

namespace binding {

HeldFunction::HeldFunction(lua_State* L, int64_t id) : releases_(state_data(L).releases), id_(id) {
  push_where(L);
  where_ = lua_tostring(L, -1);
  if (where_.ends_with(": ")) where_.resize(where_.size() - 2);
  lua_pop(L, 1);
}

HeldFunction::~HeldFunction() { releases_->release_hook(id_); }

Tensor HeldFunction::call(const Tensor& gradient) const {
  if (removed_) return {};
  StateData* data = entered_state(*releases_);
  if (data == nullptr) {
    if (!releases_->is_open()) return {};
    fail("backward: the hook registered at ", where_,
         " belongs to an interpreter that does not run on this thread; "
         "a tensor with hooks takes part in backward only where they were registered");
  }
  if (data->closing) return {};
  if (is_innermost(*data)) return call_in(data->running, gradient);
  // Another interpreter called backward: an error of this one must not cross its frames as such.
  const bool mode = grad_enabled();
  const EntryScope entry(*data);
  const GradModeGuard same(mode);
  return call_protected(data->running, gradient);
}

// The arguments and the result of `run_call`.
struct HeldFunction::Call {
  const HeldFunction& function;
  const Tensor& gradient;
  Tensor result;
};

int HeldFunction::run_call(lua_State* L) {
  auto& call = *static_cast<Call*>(lua_touserdata(L, 1));
  call.result = call.function.call_in(L, call.gradient);
  return 0;
}

Tensor HeldFunction::call_protected(lua_State* L, const Tensor& gradient) const {
  Call call{*this, gradient, {}};
  luaL_checkstack(L, 4, "hooks nest too deeply");
  lua_pushcfunction(L, guard<run_call>);
  lua_pushlightuserdata(L, &call);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return call.result;
  const char* message = lua_tostring(L, -1);
  const std::string text = message != nullptr ? message : "hook: an error that is no string";
  lua_pop(L, 1);
  throw Error(text);
}

Tensor HeldFunction::call_in(lua_State* L, const Tensor& gradient) const {
  const int top = lua_gettop(L);
  if (!push_home(L, id_)) fail("backward: the hook registered at ", where_, " is gone");
  lua_rawgeti(L, -1, id_);
  push_tensor(L, gradient);
  lua_call(L, 1, 1);
  Tensor out;
  if (!lua_isnil(L, -1)) out = check_tensor(L, -1, "hook");
  note_seen(L, -1);
  lua_settop(L, top);
  return out;
}

std::shared_ptr<HeldFunction> hold_function(lua_State* L, int tensor, int function) {
  note_seen(L, tensor);
  const int64_t id = ++binding_state(L).last_function;
  auto held = memory::make_shared<HeldFunction>(L, id);
  add_function(L, tensor, function, id, held);
  return held;
}

namespace {

constexpr const char* kHandleName = "moonlet.hook_handle";

// What `handle.remove` knows. It refers to neither the tensor nor the function, as it is often used
// inside the hook.
struct ScriptHandle {
  HookHandle hook;
  std::weak_ptr<HeldFunction> function;
  int64_t id;
};

// Upvalue: the handle.
int l_remove_hook(lua_State* L) {
  auto& handle = *static_cast<ScriptHandle*>(luaL_checkudata(L, lua_upvalueindex(1), kHandleName));
  // A backward that runs now has the hook in a list of its own; it does nothing then.
  if (const auto function = handle.function.lock()) function->remove();
  handle.hook.remove();
  luaL_checkstack(L, 6, "too many hooks");
  if (handle.id != 0) forget_function(L, handle.id);
  return 0;
}

// Leaves an empty handle behind, which other finalizers may still use.
int l_end_handle(lua_State* L) {
  auto& handle = *static_cast<ScriptHandle*>(luaL_checkudata(L, 1, kHandleName));
  handle.hook = HookHandle();
  handle.function.reset();
  return 0;
}

int l_close_handle(lua_State* L) {
  lua_getfield(L, 1, "remove");
  lua_call(L, 0, 0);
  return 0;
}

// Makes the function on top of the stack the `remove` of a handle, a table that all hooks share the
// kind of: `handle:remove()`, `handle()`, or `<close>`.
int wrap_handle(lua_State* L) {
  lua_createtable(L, 0, 1);
  if (luaL_newmetatable(L, "RemovableHandle")) {
    lua_pushcfunction(L, guard<l_close_handle>);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, guard<l_close_handle>);
    lua_setfield(L, -2, "__call");
  }
  lua_setmetatable(L, -2);
  lua_insert(L, -2);
  lua_setfield(L, -2, "remove");
  return 1;
}

// For hooks that are kept in Lua.
int l_handle(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  return wrap_handle(L);
}

// The handle of a tensor's hook.
int push_handle(lua_State* L, ScriptHandle handle) {
  new (lua_newuserdatauv(L, sizeof(ScriptHandle), 0)) ScriptHandle(std::move(handle));
  if (luaL_newmetatable(L, kHandleName)) {
    lua_pushcfunction(L, guard<l_end_handle>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, guard<l_remove_hook>, 1);
  return wrap_handle(L);
}

}  // namespace

int push_hook_handle(lua_State* L, HookHandle hook) {
  return push_handle(L, {std::move(hook), {}, 0});
}

namespace {

int l_register_hook(lua_State* L) {
  Tensor x = check_tensor(L, 1, "register_hook");
  check(is_callable(L, 2), "register_hook: a function is expected, got ", type_name(L, 2));
  release_waiting(L);
  const auto held = hold_function(L, 1, 2);
  HookHandle hook =
      register_hook(x, [held](const Tensor& gradient) { return held->call(gradient); });
  return push_handle(L, {std::move(hook), held, held->id()});
}

int l_register_post_hook(lua_State* L) {
  const char* op = "register_post_accumulate_grad_hook";
  Tensor x = check_tensor(L, 1, op);
  check(is_callable(L, 2), op, ": a function is expected, got ", type_name(L, 2));
  release_waiting(L);
  const auto held = hold_function(L, 1, 2);
  // It gives nothing, so what it does is not seen by a capture.
  HookHandle hook = register_post_accumulate_grad_hook(x, [held](Tensor& leaf) {
    if (execution.capture != nullptr)
      program::stop_capture("a post-accumulate hook", "runs, which may do more than compute");
    static_cast<void>(held->call(leaf));
  });
  return push_handle(L, {std::move(hook), held, held->id()});
}

}  // namespace

void register_hooks(lua_State* L) {
  static const luaL_Reg kMethods[] = {
      {"register_hook", guard<l_register_hook>},
      {"register_post_accumulate_grad_hook", guard<l_register_post_hook>},
      {nullptr, nullptr}};
  static const luaL_Reg kModule[] = {{"_handle", guard<l_handle>}, {nullptr, nullptr}};
  register_homes(L);
  register_custom_function(L);
  register_graph(L);
  register_saved_hooks(L);
  set_functions(L, -1, kMethods);
  set_functions(L, -2, kModule);
}

}  // namespace binding
}  // namespace moonlet
