// interp/binding/autograd/graph.cpp: nodes of the graph as values of scripts: what they are made
// of, their hooks, and what hooks may ask of the backward that runs.
#include "autograd/engine.h"
#include "autograd/history.h"
#include "autograd/node_stream.h"
#include "autograd/tape.h"
#include "interp/binding/autograd/held.h"
#include "interp/binding/autograd/hooks.h"
#include "interp/state/nearest.h"

namespace moonlet::binding {
namespace {

constexpr const char* kNodeName = "moonlet.node";
// The registry key of the weak table of nodes that scripts hold, by address.
constexpr char kNodes = 0;

constexpr const char* kFieldNames[] = {"name",     "next_functions", "variable",    "sequence",
                                       "metadata", "saved_tensors",  "_sequence_nr"};

struct NodeCell {
  NodeRef node;
};

NodeCell* node_cell(lua_State* L, int index) {
  return static_cast<NodeCell*>(luaL_testudata(L, index, kNodeName));
}

Node& node_at(lua_State* L, int index) {
  const NodeCell* cell = node_cell(L, index);
  check(cell != nullptr && cell->node, "node: a node of the graph is expected, got ",
        type_name(L, index));
  return *cell->node;
}

// --- fields --------------------------------------------------------------------------------------

int push_next_functions(lua_State* L, const Node& node) {
  lua_createtable(L, static_cast<int>(node.edges.size()), 0);
  for (size_t i = 0; i < node.edges.size(); ++i) {
    const Edge& edge = node.edges[i];
    lua_createtable(L, 2, 0);
    if (edge)
      push_node(L, edge.node);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, edge ? edge.index + 1 : 0);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

// The tables that scripts keep with a node, one of each interpreter.
struct Metadata {
  std::vector<std::unique_ptr<HeldValue>> tables;
};

int push_metadata(lua_State* L, Node& node) {
  auto kept = std::static_pointer_cast<Metadata>(node.ensure_hooks().attachment());
  if (!kept) {
    kept = memory::make_shared<Metadata>();
    node.hooks->attach(kept);
  }
  for (const auto& table : kept->tables)
    if (table->push(L)) return 1;
  lua_newtable(L);
  kept->tables.push_back(std::make_unique<HeldValue>(L, -1));
  return 1;
}

void push_saved_value(lua_State* L, const Operand& value) {
  const int count =
      value.is_tensor() ? push_result(L, value.tensor()) : push_result(L, value.scalar());
  if (count == 0) lua_pushnil(L);
}

// What the node saved under a name; false, and nothing, when there is no such.
bool push_saved(lua_State* L, Node& node, std::string_view name) {
  std::vector<Operand> values;
  bool list = false;
  if (!node.read_saved(name, values, list)) return false;
  luaL_checkstack(L, 6, "nodes");
  if (!list) {
    push_saved_value(L, values.at(0));
    return true;
  }
  lua_createtable(L, static_cast<int>(values.size()), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    push_saved_value(L, values[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(values.size()));
  lua_setfield(L, -2, "n");
  return true;
}

[[noreturn]] void unknown_saved(Node& node, std::string_view key) {
  std::string known;
  for (const std::string& name : node.saved_names()) {
    if (!known.empty()) known += ", ";
    known += "_saved_" + name;
  }
  fail(node.name(), " has no '", key, "'",
       known.empty() ? "; it holds no saved tensors" : "; it has " + known);
}

// Upvalue: the methods.
int l_index(lua_State* L) {
  Node& node = node_at(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING) fail("node: a name is expected, got ", type_name(L, 2));
  const std::string key = lua_tostring(L, 2);
  if (key == "name") return push_string(L, node.name());
  if (key == "next_functions") return push_next_functions(L, node);
  if (key == "sequence" || key == "_sequence_nr")
    return push_result(L, static_cast<int64_t>(position_of(node)));
  if (key == "metadata") return push_metadata(L, node);
  if (key == "variable") {
    if (push_result(L, node.variable()) == 0) lua_pushnil(L);
    return 1;
  }
  if (key == "saved_tensors") {
    if (push_saved(L, node, "tensors")) return 1;
    unknown_saved(node, key);
  }
  if (key.starts_with("_saved_")) {
    if (push_saved(L, node, std::string_view(key).substr(7))) return 1;
    unknown_saved(node, key);
  }
  unknown_member(L, "Node", key, kFieldNames, lua_upvalueindex(1));
}

int l_newindex(lua_State* L) {
  node_at(L, 1);
  fail("node: its fields cannot be assigned; keep values in node.metadata");
}

int l_tostring(lua_State* L) { return push_string(L, node_at(L, 1).name()); }

int l_concat(lua_State* L) {
  luaL_tolstring(L, 1, nullptr);
  luaL_tolstring(L, 2, nullptr);
  lua_concat(L, 2);
  return 1;
}

int l_equal(lua_State* L) {
  const NodeCell *a = node_cell(L, 1), *b = node_cell(L, 2);
  return push_result(L, a != nullptr && b != nullptr && a->node.get() == b->node.get());
}

int l_gc(lua_State* L) {
  if (NodeCell* cell = node_cell(L, 1)) cell->node = NodeRef();
  return 0;
}

// --- hooks ---------------------------------------------------------------------------------------

void push_gradients(lua_State* L, const std::vector<Tensor>& gradients) {
  lua_createtable(L, static_cast<int>(gradients.size()), 1);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (push_result(L, gradients[i]) == 0) continue;
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(gradients.size()));
  lua_setfield(L, -2, "n");
}

// What a hook has returned, on top of the stack, in the place of `gradients`.
void take_gradients(lua_State* L, const char* op, std::vector<Tensor>& gradients) {
  if (lua_isnil(L, -1)) return;
  const int given = lua_gettop(L);
  const bool one = tensor_cell(L, given) != nullptr && gradients.size() == 1;
  check(one || lua_type(L, given) == LUA_TTABLE, op, ": an array of ", gradients.size(),
        " gradients or nil is expected, got ", type_name(L, given));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (one)
      lua_pushvalue(L, given);
    else
      lua_geti(L, given, static_cast<lua_Integer>(i) + 1);
    const bool none = lua_isnil(L, -1) || (lua_isboolean(L, -1) && !lua_toboolean(L, -1));
    gradients[i] = none ? Tensor() : check_tensor(L, -1, op);
    if (!none) note_seen(L, -1);
    lua_pop(L, 1);
  }
  if (one) return;
  lua_geti(L, given, static_cast<lua_Integer>(gradients.size()) + 1);
  check(lua_isnil(L, -1), op, ": an array of ", gradients.size(),
        " gradients is expected, got more");
  lua_pop(L, 1);
}

// The function at 2 as something that a hook of the node at 1 calls.
std::shared_ptr<HeldValue> held_hook(lua_State* L, const char* op) {
  check(is_callable(L, 2), op, ": a function is expected, got ", type_name(L, 2));
  release_waiting(L);
  return memory::make_shared<HeldValue>(L, 2);
}

int add_hook(lua_State* L, Node& node, HookList::Entry entry) {
  const int64_t id = entry.id = new_hook_id();
  node.ensure_hooks().add(std::move(entry));
  return push_hook_handle(L, {node.hooks, id});
}

int l_register_hook(lua_State* L) {
  Node& node = node_at(L, 1);
  const auto held = held_hook(L, "register_hook");
  HookList::Entry entry{};
  entry.after_node = [held](std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    held->with("backward: a hook of a node", [&](lua_State* state) {
      push_gradients(state, inputs);
      push_gradients(state, outputs);
      lua_call(state, 2, 1);
      take_gradients(state, "hook", inputs);
    });
  };
  return add_hook(L, node, std::move(entry));
}

int l_register_prehook(lua_State* L) {
  Node& node = node_at(L, 1);
  const auto held = held_hook(L, "register_prehook");
  HookList::Entry entry{};
  entry.before_node = [held](std::vector<Tensor>& outputs) {
    held->with("backward: a hook of a node", [&](lua_State* state) {
      push_gradients(state, outputs);
      lua_call(state, 1, 1);
      take_gradients(state, "hook", outputs);
    });
  };
  return add_hook(L, node, std::move(entry));
}

constexpr luaL_Reg kMethods[] = {{"register_hook", guard<l_register_hook>},
                                 {"register_prehook", guard<l_register_prehook>},
                                 {nullptr, nullptr}};

void push_metatable(lua_State* L) {
  if (luaL_newmetatable(L, kNodeName) == 0) return;
  static const luaL_Reg kMetamethods[] = {{"__newindex", guard<l_newindex>},
                                          {"__tostring", guard<l_tostring>},
                                          {"__concat", guard<l_concat>},
                                          {"__eq", guard<l_equal>},
                                          {"__gc", guard<l_gc>},
                                          {nullptr, nullptr}};
  luaL_setfuncs(L, kMetamethods, 0);
  luaL_newlib(L, kMethods);
  lua_pushcclosure(L, guard<l_index>, 1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "Node");
  lua_setfield(L, -2, "__metatable");
}

// --- functions of the module
// -----------------------------------------------------------------------

// tensor -> its node, or the one that adds up the gradient of a leaf; and which output it is
int l_gradient_edge(lua_State* L) {
  const Tensor& t = check_tensor(L, 1, "get_gradient_edge");
  const Edge edge = edge_of(t);
  check(bool{edge}, "get_gradient_edge: the tensor does not require grad");
  note_seen(L, 1);
  push_node(L, edge.node);
  lua_pushinteger(L, edge.index + 1);
  return 2;
}

// Its number, and whether it keeps the graph.
int l_running_backward(lua_State* L) {
  push_result(L, static_cast<int64_t>(running_backward()));
  lua_pushboolean(L, running_backward_keeps_graph());
  return 2;
}

// _after_backward(f): calls `f` when the backward that runs has ended.
int l_after_backward(lua_State* L) {
  check(is_callable(L, 1), "after_backward: a function is expected, got ", type_name(L, 1));
  release_waiting(L);
  const auto held = memory::make_shared<HeldValue>(L, 1);
  after_backward(
      [held] { held->with("backward: its end", [](lua_State* state) { lua_call(state, 0, 0); }); });
  return 0;
}

int l_release_saved(lua_State* L) {
  node_at(L, 1).release_saved();
  return 0;
}

int l_is_computed_now(lua_State* L) {
  return push_result(L, is_computed_now(edge_of(check_tensor(L, 1, "register_multi_grad_hook"))));
}

int l_increment_version(lua_State* L) {
  const Tensor& t = check_tensor(L, 1, "increment_version");
  t.storage().bump_version();
  t.storage().set_last_writer("increment_version");
  return 0;
}

}  // namespace

int push_node(lua_State* L, const NodeRef& node) {
  luaL_checkstack(L, 8, "nodes");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kNodes) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kNodes);
  }
  if (lua_rawgetp(L, -1, node.get()) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    new (lua_newuserdatauv(L, sizeof(NodeCell), 0)) NodeCell{node};
    push_metatable(L);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, node.get());
  }
  lua_remove(L, -2);
  return 1;
}

Edge edge_at(lua_State* L, int index) {
  index = lua_absindex(L, index);
  if (lua_type(L, index) != LUA_TTABLE) return {};
  lua_pushliteral(L, "node");
  lua_rawget(L, index);
  const NodeCell* cell = node_cell(L, -1);
  lua_pop(L, 1);
  if (cell == nullptr || !cell->node) return {};
  lua_pushliteral(L, "output_nr");
  lua_rawget(L, index);
  int whole = 0;
  const lua_Integer output = lua_tointegerx(L, -1, &whole);
  lua_pop(L, 1);
  check(whole != 0 && output >= 1 && output <= cell->node->output_count(), "a gradient edge to ",
        cell->node->name(), " has output_nr from 1 to ", cell->node->output_count());
  return {cell->node, static_cast<int>(output - 1)};
}

void register_graph(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_gradient_edge", guard<l_gradient_edge>},
                                     {"_running_backward", guard<l_running_backward>},
                                     {"_after_backward", guard<l_after_backward>},
                                     {"_release_saved", guard<l_release_saved>},
                                     {"_is_computed_now", guard<l_is_computed_now>},
                                     {"_increment_version", guard<l_increment_version>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
