// interp/binding/autograd/tape.cpp: backward, grad and what else scripts ask of the tape.
#include "autograd/tape.h"
#include "autograd/engine.h"
#include "autograd/vmap.h"

#include <algorithm>

#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/held.h"
#include "interp/binding/autograd/hooks.h"
#include "interp/binding/uses_tape.h"
#include "tensor/program/reclaim.h"

namespace moonlet::binding {
namespace {

constexpr ArgSpec kBackwardArgs[] = {{"x", ArgType::Tensor},
                                     {"gradient", ArgType::OptionalTensor, false},
                                     {"retain_graph", ArgType::Bool, false},
                                     {"create_graph", ArgType::Bool, false},
                                     {"inputs", ArgType::Any, false}};
const Signature kBackward = {
    "backward", "x:backward(gradient=nil, {retain_graph=false, create_graph=false, inputs})",
    kBackwardArgs, std::size(kBackwardArgs)};

bool flag(ArgReader& args, int i, bool otherwise) {
  return args.has(i) ? args.boolean(i) : otherwise;
}

// A pass that runs out of memory has the garbage of scripts collected, as ops have. It cannot run
// again as a whole: what it has been through is gone, and leaves have gradients.
class CollectsGarbage final : public program::Reclaimer {
 public:
  explicit CollectsGarbage(lua_State* L) : L_(L) {}
  void reclaim() override { gc::collect(L_); }

 private:
  lua_State* const L_;
};

// The collector stands still while a backward runs, and what the forward pass left behind would add
// to its peak. So what it will allocate, as much as the one before did, is paid for first.
template <class F>
void run_paid_ahead(lua_State* L, F&& run) {
  BindingState& state = binding_state(L);
  pay_collector(L, state);
  const int64_t ahead = state.backward_bytes, start = thread_allocated_bytes();
  gc::pay_between_passes(L, ahead);
  {
    const BackwardScope scope(L);
    const CollectsGarbage where_memory_is_short(L);
    run();
  }
  const int64_t end = thread_allocated_bytes();
  state.backward_bytes = end - start;
  // Hooks may have paid for more.
  state.paid_bytes = std::max(state.paid_bytes, std::min(start + ahead, end));
  release_waiting(L);  // the hooks that went with the graph
}

// _gradients_dropped(): pays the collector for gradients that were just let go, as many bytes as
// the last backward made.
int l_gradients_dropped(lua_State* L) {
  gc::pay_between_passes(L, binding_state(L).backward_bytes);
  return 0;
}

// _address(x): where its first element lies, to tell tensors on the same memory. Unlike `data_ptr`
// it is for the library, which looks at no element through it, so a capture goes on.
int l_address(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "_address");
  check(!x.device().is_batched(), "a tensor inside vmap has no memory of its own");
  return push_result(L, static_cast<int64_t>(reinterpret_cast<intptr_t>(x.raw())));
}

// What gradients go to or start from: a tensor, or an edge that stands for one.
struct Target {
  Tensor tensor;
  Edge edge;
};

Target target_at(lua_State* L, int index, const char* what) {
  if (Edge edge = edge_at(L, index)) return {{}, std::move(edge)};
  const Tensor t = check_tensor(L, index, what);
  note_seen(L, index);
  return {t, edge_of(t)};
}

// One of them, or a table of them.
std::vector<Target> targets(lua_State* L, ArgReader& args, int i, const char* what) {
  std::vector<Target> out;
  const int index = args.slot(i);
  if (index == 0) return out;
  if (lua_type(L, index) != LUA_TTABLE || edge_at(L, index)) {
    out.push_back(target_at(L, index, what));
    return out;
  }
  const lua_Integer count = luaL_len(L, index);
  for (lua_Integer k = 1; k <= count; ++k) {
    lua_geti(L, index, k);
    check(!lua_isboolean(L, -1), what, ": tensor ", static_cast<int64_t>(k), " is missing");
    out.push_back(target_at(L, -1, what));
    lua_pop(L, 1);
  }
  return out;
}

std::vector<Edge> edges_of(const std::vector<Target>& list) {
  std::vector<Edge> out;
  out.reserve(list.size());
  for (const Target& each : list) out.push_back(each.edge);
  return out;
}

// Gradients that outputs start from: a tensor, or a table with false for none.
std::vector<Tensor> gradients(lua_State* L, ArgReader& args, int i, const char* what) {
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

// Backward into all leaves, or into `inputs` when that is given. A result among these gets its
// gradient added to its `grad`, too.
void run_backward(lua_State* L, const BackwardRequest& request, bool into_inputs,
                  const std::vector<Target>& inputs) {
  check(!into_inputs || !inputs.empty(), "backward: 'inputs' is empty");
  for (const Target& input : inputs)
    check(input.tensor.defined() || !input.edge || input.edge.node->variable().defined(),
          "backward: an edge among 'inputs' must lead to a leaf; use ml.grad for others");
  std::vector<Tensor> given;
  run_paid_ahead(L, [&] { given = accumulate_gradients(request, into_inputs); });
  for (size_t i = 0; i < given.size(); ++i) {
    Tensor t = inputs[i].tensor;
    if (!given[i].defined()) continue;
    const Tensor have = grad_of(t);
    set_grad(t, have.defined() ? add(have, given[i]) : given[i]);
  }
}

int l_backward(lua_State* L) {
  ArgReader args(L, kBackward);
  const Tensor x = args.tensor(0);
  const Tensor gradient = args.optional_tensor(1);
  const bool create = flag(args, 3, false);
  const bool retain = flag(args, 2, create);
  if (gradient.defined()) note_seen(L, args.slot(1));
  const std::vector<Target> inputs = targets(L, args, 4, "backward");
  run_backward(L, {{edge_of(x)}, {gradient}, edges_of(inputs), retain, create}, args.has(4),
               inputs);
  return 0;
}

constexpr ArgSpec kBackwardManyArgs[] = {{"tensors", ArgType::Any},
                                         {"grad_tensors", ArgType::Any, false},
                                         {"retain_graph", ArgType::Bool, false},
                                         {"create_graph", ArgType::Bool, false},
                                         {"inputs", ArgType::Any, false}};
const Signature kBackwardMany = {
    "autograd.backward",
    "ml.autograd.backward(tensors, {grad_tensors, retain_graph=false, create_graph=false, inputs})",
    kBackwardManyArgs, std::size(kBackwardManyArgs)};

int l_backward_many(lua_State* L) {
  ArgReader args(L, kBackwardMany);
  const std::vector<Target> outputs = targets(L, args, 0, "autograd.backward");
  std::vector<Tensor> given = gradients(L, args, 1, "autograd.backward");
  check(given.size() <= outputs.size(), "autograd.backward: ", given.size(), " grad_tensors for ",
        outputs.size(), " tensors");
  given.resize(outputs.size());
  const bool create = flag(args, 3, false);
  const bool retain = flag(args, 2, create);
  const std::vector<Target> inputs = targets(L, args, 4, "autograd.backward");
  run_backward(L, {edges_of(outputs), given, edges_of(inputs), retain, create}, args.has(4),
               inputs);
  return 0;
}

constexpr ArgSpec kGradArgs[] = {{"outputs", ArgType::Any},
                                 {"inputs", ArgType::Any},
                                 {"grad_outputs", ArgType::Any, false},
                                 {"retain_graph", ArgType::Bool, false},
                                 {"create_graph", ArgType::Bool, false},
                                 {"allow_unused", ArgType::Bool, false},
                                 {"is_grads_batched", ArgType::Bool, false},
                                 {"materialize_grads", ArgType::Bool, false}};
const Signature kGrad = {
    "grad",
    "ml.grad(outputs, inputs, {grad_outputs, retain_graph=false, create_graph=false, "
    "allow_unused=false, is_grads_batched=false, materialize_grads=false})",
    kGradArgs, std::size(kGradArgs)};

// The gradients for each of a batch of grad_outputs: one backward in vmap.
std::vector<Tensor> batched_gradients(BackwardRequest request) {
  int64_t count = -1;
  for (const Tensor& g : request.gradients) {
    if (!g.defined()) continue;
    check(g.dim() > 0 && (count < 0 || g.size(0) == count),
          "grad: with is_grads_batched all grad_outputs need one leading dimension, got shape ",
          g.sizes());
    count = g.size(0);
  }
  check(count > 0, "grad: is_grads_batched wants grad_outputs with a leading dimension");
  const VmapScope scope(count);
  for (Tensor& g : request.gradients)
    if (g.defined()) g = scope.sample(g);
  std::vector<Tensor> out = gradients_of_inputs(request);
  for (Tensor& g : out)
    if (g.defined()) g = scope.samples(g);
  return out;
}

// Zeros, or an error, in the place of gradients that the outputs do not depend on.
void fill_unused(std::vector<Tensor>& results, const BackwardRequest& request, bool allow_unused,
                 bool materialize, int64_t batch) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) continue;
    check(allow_unused || materialize, "grad: input ", i + 1,
          " was not used to compute the outputs; pass allow_unused = true to get nil for it");
    if (!materialize) continue;
    const OutputMeta& meta = request.inputs[i].node->output(request.inputs[i].index);
    Dims sizes;
    if (batch >= 0) sizes.push_back(batch);
    for (const int64_t size : meta.sizes) sizes.push_back(size);
    results[i] = zeros(sizes, meta.options);
  }
}

int l_grad(lua_State* L) {
  ArgReader args(L, kGrad);
  const std::vector<Target> outputs = targets(L, args, 0, "grad");
  const std::vector<Target> inputs = targets(L, args, 1, "grad");
  std::vector<Tensor> given = gradients(L, args, 2, "grad");
  check(given.size() <= outputs.size(), "grad: ", given.size(), " grad_outputs for ",
        outputs.size(), " outputs");
  given.resize(outputs.size());
  const bool create = flag(args, 4, false), batched = flag(args, 6, false);
  const bool materialize = flag(args, 7, false), unused = flag(args, 5, materialize);
  check(unused || !materialize,
        "grad: materialize_grads and allow_unused = false exclude each other");
  const BackwardRequest request{edges_of(outputs), given, edges_of(inputs), flag(args, 3, create),
                                create};
  std::vector<Tensor> results;
  run_paid_ahead(L, [&] {
    results = batched ? batched_gradients(request) : gradients_of_inputs(request);
    int64_t batch = -1;
    for (const Tensor& g : given)
      if (batched && g.defined()) batch = g.size(0);
    fill_unused(results, request, unused, materialize, batch);
  });
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
        "requires_grad_: true or false is expected, got ", type_name(L, 2));
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
  static const luaL_Reg kModule[] = {{"grad", op_guard<l_grad>},
                                     {"_backward", guard<l_backward_many>},
                                     {"_gradients_dropped", guard<l_gradients_dropped>},
                                     {"_address", op_guard<l_address>},
                                     {nullptr, nullptr}};
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
