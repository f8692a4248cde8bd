// interp/binding/tape.cpp: backward, grad and what else scripts ask of the tape.
#include "autograd/tape.h"

#include <algorithm>

#include "interp/binding/arg_reader.h"
#include "interp/binding/hooks.h"

namespace moonlet::binding {
namespace {

constexpr ArgSpec kBackwardArgs[] = {{"x", ArgType::Tensor},
                                     {"gradient", ArgType::OptionalTensor, false},
                                     {"retain_graph", ArgType::Bool, false},
                                     {"create_graph", ArgType::Bool, false}};
const Signature kBackward = {"backward",
                             "x:backward(gradient=nil, {retain_graph=false, create_graph=false})",
                             kBackwardArgs, std::size(kBackwardArgs)};

bool flag(ArgReader& args, int i, bool otherwise) {
  return args.has(i) ? args.boolean(i) : otherwise;
}

// The collector stands still while a backward runs, and what the forward pass left behind would add
// to its peak. So what it will allocate, as much as the one before did, is paid for first.
template <class F>
void run_paid_ahead(lua_State* L, F&& run) {
  BindingState& state = binding_state(L);
  pay_collector(L, state);
  const int64_t ahead = state.backward_bytes, start = thread_allocated_bytes();
  gc::pay_ahead(L, ahead);
  {
    const BackwardScope scope(L);
    run();
  }
  const int64_t end = thread_allocated_bytes();
  state.backward_bytes = end - start;
  // Hooks may have paid for more.
  state.paid_bytes = std::max(state.paid_bytes, std::min(start + ahead, end));
  release_waiting(L);  // the hooks that went with the graph
}

int l_backward(lua_State* L) {
  ArgReader args(L, kBackward);
  const Tensor x = args.tensor(0);
  const Tensor gradient = args.optional_tensor(1);
  const bool create = flag(args, 3, false);
  const bool retain = flag(args, 2, create);
  if (gradient.defined()) note_seen(L, args.slot(1));
  run_paid_ahead(L, [&] { backward({x}, {gradient}, retain, create); });
  return 0;
}

// A tensor, or a table of them.
std::vector<Tensor> one_or_many(lua_State* L, ArgReader& args, int i, const char* what) {
  std::vector<Tensor> out;
  const int index = args.slot(i);
  if (index == 0) return out;
  if (lua_type(L, index) != LUA_TTABLE) {
    out.push_back(check_tensor(L, index, what));
    note_seen(L, index);
    return out;
  }
  const lua_Integer count = luaL_len(L, index);
  for (lua_Integer k = 1; k <= count; ++k) {
    lua_geti(L, index, k);
    const bool none = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    out.push_back(none ? Tensor() : check_tensor(L, -1, what));
    note_seen(L, -1);
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
    kGradArgs, std::size(kGradArgs)};

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
  const bool retain = flag(args, 3, create), unused = flag(args, 5, false);
  std::vector<Tensor> results;
  run_paid_ahead(L, [&] { results = grad(outputs, inputs, gradients, retain, create, unused); });
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

}  // namespace

void register_tape(lua_State* L) {
  static const luaL_Reg kModule[] = {{"grad", op_guard<l_grad>}, {nullptr, nullptr}};
  // backward is not run twice when memory is short: it may have added to gradients already.
  static const luaL_Reg kMethods[] = {
      {"backward", guard<l_backward>},          {"detach", op_guard<l_detach>},
      {"detach_", op_guard<l_detach_in_place>}, {"requires_grad_", guard<l_requires_grad>},
      {"retain_grad", guard<l_retain_grad>},    {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
  register_hooks(L);
}

}  // namespace moonlet::binding
