// interp/binding/autograd/custom_function.cpp: calls of functions whose forward and backward are
// Lua: the context they get, and the node that calls backward. stdlib/autograd/function.lua runs
// forward.
#include "autograd/custom_function.h"

#include "autograd/tape.h"
#include "interp/binding/autograd/held.h"
#include "interp/state/blame.h"
#include "interp/state/nearest.h"

namespace moonlet::binding {
namespace {

using autograd::FunctionBody;
using autograd::FunctionCall;
using autograd::FunctionContext;

constexpr const char* kContextName = "moonlet.function_context";

// The user values of a context.
enum Slot : int { kFields = 1, kBackward, kNeeds, kForForward };

struct ContextCell {
  std::string name;
  std::unique_ptr<FunctionCall> call;  // until it is finished
  std::unique_ptr<FunctionCall> done;  // then, while tangents are derived from it
  std::shared_ptr<FunctionContext> context;
  std::shared_ptr<std::atomic<bool>> has_fields = memory::make_shared<std::atomic<bool>>(false);
  std::vector<bool> takes_tensor;  // of the arguments
  std::string where;
};

ContextCell& cell_at(lua_State* L, int index) {
  auto* cell = static_cast<ContextCell*>(luaL_testudata(L, index, kContextName));
  check(cell != nullptr, "ctx: the context of a function is expected, got ", type_name(L, index));
  check(cell->context != nullptr, "ctx: this context is gone");
  return *cell;
}

// --- backward ------------------------------------------------------------------------------------

// Puts errors of the library down to the script's line, as pcall does.
int blame(lua_State* L) {
  lua_settop(L, 1);
  blame_script(L, L);
  return 1;
}

// Adds to the message on top of the stack where forward was called, unless the message stands for
// something else: an exception of the host, or a request to stop.
void add_origin(lua_State* L, const std::string& origin) {
  StateData& data = state_data(L);
  if (lua_type(L, -1) != LUA_TSTRING || data.stop.requested()) return;
  size_t size = 0;
  const char* message = lua_tolstring(L, -1, &size);
  if (!data.carried.empty() && data.carried.find({message, size}) != nullptr) return;
  if (std::string_view(message, size).find(origin) != std::string_view::npos) return;
  lua_pushlstring(L, origin.data(), origin.size());
  lua_concat(L, 2);
}

class LuaBody final : public FunctionBody {
 public:
  LuaBody(lua_State* L, int context, const ContextCell& cell)
      : held_(L, context),
        has_fields_(cell.has_fields),
        takes_tensor_(cell.takes_tensor),
        name_(cell.name + "Backward"),
        origin_(" (its forward was called at " + cell.where + ")") {}

  std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) override {
    std::vector<Tensor> out;
    held_.with("backward: " + name_, [&](lua_State* L) { call(L, grads, out); });
    return out;
  }
  bool holds_data() const override { return *has_fields_; }
  std::string origin() const override { return origin_; }

 private:
  // The context is on top.
  void call(lua_State* L, const std::vector<Tensor>& grads, std::vector<Tensor>& out) const {
    luaL_checkstack(L, static_cast<int>(grads.size()) + 8, "too many gradients");
    const int context = lua_gettop(L);
    lua_pushcfunction(L, blame);
    lua_getiuservalue(L, context, kBackward);
    lua_pushvalue(L, context);
    for (const Tensor& g : grads)
      if (push_result(L, g) == 0) lua_pushnil(L);
    const int status = lua_pcall(L, static_cast<int>(grads.size()) + 1, LUA_MULTRET, context + 1);
    if (status != LUA_OK) {
      if (status == LUA_ERRRUN) add_origin(L, origin_);
      lua_error(L);
    }
    const int count = lua_gettop(L) - context - 1;
    for (int i = 0; i < count; ++i) take(L, context + 2 + i, static_cast<size_t>(i), out);
  }

  void take(lua_State* L, int index, size_t i, std::vector<Tensor>& out) const {
    if (lua_isnil(L, index)) {
      out.emplace_back();
      return;
    }
    const Tensor* cell = tensor_cell(L, index);
    if (cell == nullptr || !cell->defined())
      fail("backward: ", name_, " gave ", type_name(L, index), " for argument ", i + 1,
           "; a tensor or nil is expected", origin_);
    if (i < takes_tensor_.size() && !takes_tensor_[i])
      fail("backward: ", name_, " gave a gradient for argument ", i + 1,
           ", which is no tensor; nil is expected", origin_);
    note_seen(L, index);
    out.push_back(*cell);
  }

  const HeldValue held_;
  const std::shared_ptr<std::atomic<bool>> has_fields_;
  const std::vector<bool> takes_tensor_;
  const std::string name_, origin_;
};

// --- the context ---------------------------------------------------------------------------------

// The tensors from stack index 2 on, nil being none.
std::vector<Tensor> tensors_from(lua_State* L, const char* op) {
  std::vector<Tensor> out;
  const int top = lua_gettop(L);
  for (int i = 2; i <= top; ++i) {
    if (lua_isnil(L, i)) {
      out.emplace_back();
      continue;
    }
    out.push_back(check_tensor(L, i, op));
    note_seen(L, i);
  }
  return out;
}

int l_save_for_backward(lua_State* L) {
  cell_at(L, 1).context->save_for_backward(tensors_from(L, "save_for_backward"));
  return 0;
}

// An array of what is on the stack from 2 on, with its length in `n`.
void pack_arguments(lua_State* L) {
  const int top = lua_gettop(L);
  lua_createtable(L, top - 1, 1);
  for (int i = 2; i <= top; ++i) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i - 1);
  }
  lua_pushinteger(L, top - 1);
  lua_setfield(L, -2, "n");
}

int l_save_for_forward(lua_State* L) {
  check(cell_at(L, 1).call != nullptr, "save_for_forward: forward has ended; call it there");
  tensors_from(L, "save_for_forward");
  pack_arguments(L);
  lua_setiuservalue(L, 1, kForForward);
  return 0;
}

int l_mark_dirty(lua_State* L) {
  cell_at(L, 1).context->mark_dirty(tensors_from(L, "mark_dirty"));
  return 0;
}

int l_mark_non_differentiable(lua_State* L) {
  cell_at(L, 1).context->mark_non_differentiable(tensors_from(L, "mark_non_differentiable"));
  return 0;
}

int l_set_materialize_grads(lua_State* L) {
  check(lua_isboolean(L, 2), "set_materialize_grads: true or false is expected, got ",
        type_name(L, 2));
  cell_at(L, 1).context->set_materialize_grads(lua_toboolean(L, 2) != 0);
  return 0;
}

int push_saved(lua_State* L, const ContextCell& cell) {
  const std::vector<Tensor> saved = cell.context->saved_tensors();
  lua_createtable(L, static_cast<int>(saved.size()), 1);
  for (size_t i = 0; i < saved.size(); ++i) {
    if (!saved[i].defined()) continue;
    push_result(L, saved[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(saved.size()));
  lua_setfield(L, -2, "n");
  return 1;
}

constexpr luaL_Reg kContextMethods[] = {
    {"save_for_backward", guard<l_save_for_backward>},
    {"save_for_forward", guard<l_save_for_forward>},
    {"mark_dirty", guard<l_mark_dirty>},
    {"mark_non_differentiable", guard<l_mark_non_differentiable>},
    {"set_materialize_grads", guard<l_set_materialize_grads>},
    {nullptr, nullptr}};
constexpr const char* kContextFields[] = {"saved_tensors", "saved_for_forward", "needs_input_grad"};

// Upvalue: the methods. Other names are the script's own fields.
int l_context_index(lua_State* L) {
  ContextCell& cell = cell_at(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (lua_type(L, 2) == LUA_TSTRING) {
    const std::string_view key = lua_tostring(L, 2);
    if (key == "saved_tensors") return push_saved(L, cell);
    if (key == "needs_input_grad") return lua_getiuservalue(L, 1, kNeeds), 1;
    if (key == "saved_for_forward") return lua_getiuservalue(L, 1, kForForward), 1;
  }
  if (lua_getiuservalue(L, 1, kFields) != LUA_TTABLE) return lua_pushnil(L), 1;
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

int l_context_newindex(lua_State* L) {
  const ContextCell& cell = cell_at(L, 1);
  check(!lua_isnil(L, 2) &&
            !(lua_type(L, 2) == LUA_TNUMBER && lua_tonumber(L, 2) != lua_tonumber(L, 2)),
        "ctx: a field needs a name, got ", type_name(L, 2));
  lua_pushvalue(L, 2);
  bool taken = lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL;
  lua_pop(L, 1);
  if (lua_type(L, 2) == LUA_TSTRING)
    for (const char* name : kContextFields)
      taken = taken || std::string_view(name) == lua_tostring(L, 2);
  if (taken) fail("ctx: '", lua_tostring(L, 2), "' cannot be assigned");
  if (lua_getiuservalue(L, 1, kFields) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, kFields);
  }
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  *cell.has_fields = true;
  return 0;
}

int l_context_tostring(lua_State* L) { return push_string(L, "context of " + cell_at(L, 1).name); }

// Leaves an empty context behind, which other finalizers may still ask.
int l_context_gc(lua_State* L) {
  auto& cell = *static_cast<ContextCell*>(luaL_checkudata(L, 1, kContextName));
  cell.call.reset();
  cell.done.reset();
  cell.context.reset();
  cell.has_fields.reset();
  std::string().swap(cell.name);
  std::string().swap(cell.where);
  std::vector<bool>().swap(cell.takes_tensor);
  return 0;
}

void push_context_metatable(lua_State* L) {
  if (luaL_newmetatable(L, kContextName) == 0) return;
  luaL_newlib(L, kContextMethods);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, guard<l_context_index>, 1);
  lua_setfield(L, -3, "__index");
  lua_pushcclosure(L, guard<l_context_newindex>, 1);
  lua_setfield(L, -2, "__newindex");
  lua_pushcfunction(L, guard<l_context_tostring>);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, guard<l_context_gc>);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "FunctionContext");
  lua_setfield(L, -2, "__metatable");
}

// --- calls ---------------------------------------------------------------------------------------

// name, arguments by which backward will be differentiated (a table of true, or nil), arguments ->
// the context
int l_function_begin(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  std::vector<bool> along;
  for (int i = 3; lua_istable(L, 2) && i <= lua_gettop(L); ++i) {
    along.push_back(lua_rawgeti(L, 2, i - 2) != LUA_TNIL);
    lua_pop(L, 1);
  }
  lua_remove(L, 2);
  const int top = lua_gettop(L);
  release_waiting(L);
  luaL_checkstack(L, 8, "too many arguments");
  std::vector<Tensor> inputs;
  std::vector<bool> takes_tensor;
  for (int i = 2; i <= top; ++i) {
    const bool tensor = tensor_cell(L, i) != nullptr;
    inputs.push_back(tensor ? check_tensor(L, i, name) : Tensor());
    takes_tensor.push_back(tensor);
    if (tensor) note_seen(L, i);
  }
  auto call = std::make_unique<FunctionCall>(name, inputs, along);
  std::string where = where_now(L);
  auto* cell = new (lua_newuserdatauv(L, sizeof(ContextCell), kForForward)) ContextCell();
  push_context_metatable(L);
  lua_setmetatable(L, -2);
  cell->name = name;
  cell->context = call->context();
  cell->call = std::move(call);
  cell->takes_tensor = std::move(takes_tensor);
  cell->where = std::move(where);
  lua_createtable(L, top - 1, 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    lua_pushboolean(L, cell->context->needs_input_grad(i));
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_setiuservalue(L, -2, kNeeds);
  return 1;
}

// context, backward, results of forward -> the results with their history
int l_function_end(lua_State* L) {
  ContextCell& cell = cell_at(L, 1);
  std::unique_ptr<FunctionCall> call = std::move(cell.call);
  check(call != nullptr, cell.name, ": its forward has ended already");
  const int top = lua_gettop(L), count = top - 2;
  std::vector<Tensor> results;
  for (int i = 3; i <= top; ++i) {
    const bool tensor = tensor_cell(L, i) != nullptr;
    results.push_back(tensor ? check_tensor(L, i, cell.name.c_str()) : Tensor());
    if (tensor) note_seen(L, i);
  }
  std::shared_ptr<FunctionBody> body;
  if (call->needs_backward()) {
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 1, kBackward);
    body = memory::make_shared<LuaBody>(L, 1, cell);
  }
  const std::vector<Tensor> before = results;
  call->finish(results, std::move(body));
  lua_pushnil(L);
  lua_setiuservalue(L, 1, kForForward);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!results[at].defined() || results[at].is_same(before[at])) continue;
    push_result(L, results[at]);
    lua_replace(L, 3 + i);
  }
  if (call->derives_tangents()) cell.done = std::move(call);
  return count;
}

// context, tangents of the arguments -> an array of those of the results
int l_function_tangents(lua_State* L) {
  const ContextCell& cell = cell_at(L, 1);
  check(cell.done != nullptr, cell.name, ": its call has ended already");
  const std::vector<Tensor> along = tensors_from(L, "jvp");
  const std::vector<Tensor> found = cell.done->tangents(along);
  lua_createtable(L, static_cast<int>(found.size()), 1);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    push_result(L, found[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(found.size()));
  lua_setfield(L, -2, "n");
  return 1;
}

// context: nothing is derived from the call any more.
int l_function_done(lua_State* L) {
  cell_at(L, 1).done.reset();
  return 0;
}

// context, a table or nil: what `saved_for_forward` gives.
int l_function_keep(lua_State* L) {
  cell_at(L, 1);
  lua_settop(L, 2);
  lua_setiuservalue(L, 1, kForForward);
  return 0;
}

}  // namespace

void register_custom_function(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_function_begin", guard<l_function_begin>},
                                     {"_function_end", guard<l_function_end>},
                                     {"_function_tangents", guard<l_function_tangents>},
                                     {"_function_done", guard<l_function_done>},
                                     {"_function_keep", guard<l_function_keep>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
