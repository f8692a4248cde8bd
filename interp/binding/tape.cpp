// interp/binding/tape.cpp: backward, grad, hooks and what else scripts ask of the tape.
#include "autograd/tape.h"

#include <memory>

#include "interp/binding/args.h"

namespace moonlet::binding {
namespace {

// The coroutine that runs backward on this thread; hooks are called on it.
thread_local lua_State* running_state = nullptr;

class RunningState {
 public:
  explicit RunningState(lua_State* L) : before_(running_state) { running_state = L; }
  ~RunningState() { running_state = before_; }
  RunningState(const RunningState&) = delete;
  RunningState& operator=(const RunningState&) = delete;

 private:
  lua_State* before_;
};

// A Lua function kept by the tape. `state` is emptied when the interpreter closes, so that a hook
// that outlives it neither runs nor touches the dead state.
class HeldFunction {
 public:
  HeldFunction(lua_State* L, int index) : state_(binding_state(L).alive) {
    lua_pushvalue(L, index);
    ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  ~HeldFunction() {
    if (*state_ != nullptr) luaL_unref(*state_, LUA_REGISTRYINDEX, ref_);
  }
  HeldFunction(const HeldFunction&) = delete;
  HeldFunction& operator=(const HeldFunction&) = delete;

  Tensor call(const Tensor& gradient) const {
    lua_State* L = running_state;
    if (*state_ == nullptr || L == nullptr || binding_state(L).alive != state_) return {};
    luaL_checkstack(L, 4, "hooks nest too deeply");
    const int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref_);
    push_tensor(L, gradient);
    lua_call(L, 1, 1);
    Tensor out;
    if (!lua_isnil(L, -1)) out = check_tensor(L, -1, "hook");
    lua_settop(L, top);
    return out;
  }

 private:
  std::shared_ptr<lua_State*> state_;
  int ref_ = LUA_NOREF;
};

constexpr ArgSpec kBackwardArgs[] = {{"x", ArgType::Tensor},
                                     {"gradient", ArgType::OptionalTensor, false},
                                     {"retain_graph", ArgType::Bool, false},
                                     {"create_graph", ArgType::Bool, false}};
const Signature kBackward = {"backward",
                             "x:backward(gradient=nil, {retain_graph=false, create_graph=false})",
                             kBackwardArgs, 4};

bool flag(ArgReader& args, int i, bool otherwise) {
  return args.has(i) ? args.boolean(i) : otherwise;
}

int l_backward(lua_State* L) {
  ArgReader args(L, kBackward);
  const Tensor x = args.tensor(0);
  const Tensor gradient = args.optional_tensor(1);
  const bool create = flag(args, 3, false);
  RunningState running(L);
  backward({x}, {gradient}, flag(args, 2, create), create);
  return 0;
}

// A tensor, or a table of them.
std::vector<Tensor> one_or_many(lua_State* L, ArgReader& args, int i, const char* what) {
  std::vector<Tensor> out;
  const int index = args.slot(i);
  if (index == 0) return out;
  if (lua_type(L, index) != LUA_TTABLE) {
    out.push_back(check_tensor(L, index, what));
    return out;
  }
  const lua_Integer count = luaL_len(L, index);
  for (lua_Integer k = 1; k <= count; ++k) {
    lua_geti(L, index, k);
    const bool none = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    out.push_back(none ? Tensor() : check_tensor(L, -1, what));
    lua_pop(L, 1);
  }
  return out;
}

constexpr ArgSpec kGradArgs[] = {{"outputs", ArgType::Any},
                                 {"inputs", ArgType::Any},
                                 {"grad_outputs", ArgType::Any, false},
                                 {"retain_graph", ArgType::Bool, false},
                                 {"create_graph", ArgType::Bool, false},
                                 {"allow_unused", ArgType::Bool, false}};
const Signature kGrad = {
    "grad",
    "ml.grad(outputs, inputs, {grad_outputs, retain_graph=false, create_graph=false, "
    "allow_unused=false})",
    kGradArgs, 6};

int l_grad(lua_State* L) {
  ArgReader args(L, kGrad);
  const std::vector<Tensor> outputs = one_or_many(L, args, 0, "grad");
  const std::vector<Tensor> inputs = one_or_many(L, args, 1, "grad");
  std::vector<Tensor> gradients = one_or_many(L, args, 2, "grad");
  check(gradients.size() <= outputs.size(), "grad: ", gradients.size(), " grad_outputs for ",
        outputs.size(), " outputs");
  for (const Tensor& t : outputs) check(t.defined(), "grad: an output is missing");
  for (const Tensor& t : inputs) check(t.defined(), "grad: an input is missing");
  gradients.resize(outputs.size());
  const bool create = flag(args, 4, false);
  RunningState running(L);
  const std::vector<Tensor> results =
      grad(outputs, inputs, gradients, flag(args, 3, create), create, flag(args, 5, false));
  luaL_checkstack(L, static_cast<int>(results.size()) + 4, "too many gradients");
  for (const Tensor& t : results) push_tensor(L, t);
  return static_cast<int>(results.size());
}

int l_detach(lua_State* L) { return push_result(L, detach(check_tensor(L, 1, "detach"))); }

int l_detach_in_place(lua_State* L) {
  detach_(check_tensor(L, 1, "detach_"));
  lua_settop(L, 1);
  return 1;
}

int l_requires_grad(lua_State* L) {
  Tensor& x = check_tensor(L, 1, "requires_grad_");
  check(lua_isnoneornil(L, 2) || lua_isboolean(L, 2),
        "requires_grad_: true or false is wanted, got ", type_name(L, 2));
  set_requires_grad(x, lua_isnoneornil(L, 2) || lua_toboolean(L, 2) != 0);
  lua_settop(L, 1);
  return 1;
}

int l_retain_grad(lua_State* L) {
  retain_grad(check_tensor(L, 1, "retain_grad"));
  lua_settop(L, 1);
  return 1;
}

constexpr const char* kHandleName = "moonlet.hook_handle";

// Upvalue: the handle.
int l_remove_hook(lua_State* L) {
  static_cast<HookHandle*>(luaL_checkudata(L, lua_upvalueindex(1), kHandleName))->remove();
  return 0;
}

int l_end_handle(lua_State* L) {
  static_cast<HookHandle*>(luaL_checkudata(L, 1, kHandleName))->~HookHandle();
  return 0;
}

// A table with the function `remove`.
int push_handle(lua_State* L, HookHandle handle) {
  lua_createtable(L, 0, 1);
  new (lua_newuserdatauv(L, sizeof(HookHandle), 0)) HookHandle(std::move(handle));
  if (luaL_newmetatable(L, kHandleName)) {
    lua_pushcfunction(L, guard<l_end_handle>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, guard<l_remove_hook>, 1);
  lua_setfield(L, -2, "remove");
  return 1;
}

int l_register_hook(lua_State* L) {
  Tensor& x = check_tensor(L, 1, "register_hook");
  check(lua_isfunction(L, 2), "register_hook: a function is wanted, got ", type_name(L, 2));
  auto held = std::make_shared<HeldFunction>(L, 2);
  return push_handle(
      L, register_hook(x, [held](const Tensor& gradient) { return held->call(gradient); }));
}

}  // namespace

void register_tape(lua_State* L) {
  static const luaL_Reg kModule[] = {{"grad", op_guard<l_grad>}, {nullptr, nullptr}};
  // backward is not run twice when memory is short: it may have added to gradients already.
  static const luaL_Reg kMethods[] = {{"backward", guard<l_backward>},
                                      {"detach", op_guard<l_detach>},
                                      {"detach_", op_guard<l_detach_in_place>},
                                      {"requires_grad_", guard<l_requires_grad>},
                                      {"retain_grad", guard<l_retain_grad>},
                                      {"register_hook", guard<l_register_hook>},
                                      {nullptr, nullptr}};
  BindingState& state = binding_state(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  state.alive = std::make_shared<lua_State*>(lua_tothread(L, -1));
  lua_pop(L, 1);
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
