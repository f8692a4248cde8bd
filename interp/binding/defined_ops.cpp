// interp/binding/defined_ops.cpp: ops whose body is a Lua function: arguments are read as those of
// the rows, the modes get the call as one of a composite, and the body runs below them.
// stdlib/ops/ takes the definition apart and makes the body.
#include "interp/binding/defined_ops.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "autograd/batching.h"
#include "autograd/forward_mode.h"
#include "autograd/recording.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/boxed_argument.h"
#include "interp/binding/op_values.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/registered_ops.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/modes.h"

namespace moonlet::binding {
namespace {

constexpr const char* kName = "moonlet.defined_op";
// In the registry: the bodies by the address of their op, and the userdata of all ops by name.
constexpr char kBodies = 0, kOps = 0;
// What messages call a body.
constexpr const char* kGiver = "its forward";

struct TypeName {
  std::string_view name;
  ArgType type;
  int8_t length = 0;
};
constexpr TypeName kTypes[] = {{"Tensor", ArgType::Tensor},
                               {"Tensor?", ArgType::OptionalTensor},
                               {"Tensor[]", ArgType::TensorList},
                               {"Tensor?[]", ArgType::TensorList, 1},
                               {"Operand", ArgType::Operand},
                               {"Scalar", ArgType::Scalar},
                               {"int", ArgType::Int},
                               {"int[]", ArgType::IntList},
                               {"int[1]", ArgType::IntList, 1},
                               {"int[2]", ArgType::IntList, 2},
                               {"int[3]", ArgType::IntList, 3},
                               {"int[*]", ArgType::IntVector},
                               {"float", ArgType::Float},
                               {"float[*]", ArgType::FloatVector},
                               {"bool", ArgType::Bool},
                               {"string", ArgType::String},
                               {"Dim", ArgType::Dim},
                               {"NewDim", ArgType::Dim},
                               {"Dim[]", ArgType::DimList},
                               {"Dim[*]", ArgType::DimList},
                               {"Index", ArgType::Index},
                               {"Index[*]", ArgType::IndexVector},
                               {"DType", ArgType::DType},
                               {"Device", ArgType::Device},
                               {"MemoryFormat", ArgType::MemoryFormat}};

struct SetName {
  std::string_view name;
  DTypeSet set;
};
constexpr SetName kSets[] = {{"all", dtypes::all},           {"any", dtypes::any},
                             {"boolean", dtypes::boolean},   {"integral", dtypes::integral},
                             {"floating", dtypes::floating}, {"complex", dtypes::complex},
                             {"real", dtypes::real}};

// The record of a type; "T?" is that of T. Null for another word.
const TypeName* type_of(std::string_view name) {
  for (const TypeName& each : kTypes)
    if (each.name == name) return &each;
  if (!name.ends_with('?')) return nullptr;
  name.remove_suffix(1);
  return type_of(name);
}

struct DefinedOp : OpInfo {
  RowInfo about{};
  lua_State* main = nullptr;
  std::deque<std::string> texts;  // that the rest points to
  std::vector<ArgumentInfo> arguments;
  std::vector<ArgSpec> specs;  // with `out` at the end where there is one
  Signature plain{}, in_place{};
  BoxedValues defaults;
  bool has_out = false, gives_tensor = false;

  const char* keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }
};

struct Cell {
  std::unique_ptr<DefinedOp> op;
};

// Leaves an empty one behind: finalizers of the script may still call the op.
int l_collect(lua_State* L) {
  static_cast<Cell*>(luaL_checkudata(L, 1, kName))->op.reset();
  return 0;
}

const DefinedOp& op_at(lua_State* L, int index) {
  const auto* cell = static_cast<const Cell*>(luaL_testudata(L, index, kName));
  check(cell != nullptr && cell->op != nullptr, "ops: this op has ended with its interpreter");
  return *cell->op;
}

// --- calls ---------------------------------------------------------------------------------------

// Calls the body and leaves its results on the stack, of which it returns the number.
int push_body(lua_State* L, const DefinedOp& op, std::span<const BoxedValue> arguments) {
  const int count = static_cast<int>(arguments.size()), top = lua_gettop(L);
  luaL_checkstack(L, count + 8, "ops that scripts define nest too deeply");
  for (int i = 0; i < count; ++i)
    if (const auto* x = std::get_if<Tensor>(&arguments[i]); x && x->defined())
      check_dtype(op.name, op.arguments[i].name, *x, op.about.dtypes);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kBodies);
  lua_rawgetp(L, -1, &op);
  lua_remove(L, top + 1);
  for (int i = 0; i < count; ++i)
    push_argument(L, op, static_cast<size_t>(i), arguments[static_cast<size_t>(i)]);
  lua_call(L, count, LUA_MULTRET);
  return lua_gettop(L) - top;
}

void run_body(const DefinedOp& op, std::span<const BoxedValue> arguments, BoxedValues& results) {
  lua_State* L = running_coroutine(op.main);
  const int top = lua_gettop(L);
  const int count = push_body(L, op, arguments);
  results = results_from(L, top + 1, count, op, arguments, {}, kGiver);
  lua_settop(L, top);
}

// The usual results are looked at quickly.
bool is_one_tensor(lua_State* L, const DefinedOp& op, int count) {
  if (!op.gives_tensor || count != 1) return false;
  const Tensor* const cell = tensor_cell(L, -1);
  return cell != nullptr && cell->defined();
}

// OpInfo::body and OpInfo::call of all of them.
void body_of_called(std::span<const BoxedValue> arguments, BoxedValues& results) {
  run_body(static_cast<const DefinedOp&>(called_op()), arguments, results);
}

void call_called(std::span<const BoxedValue> arguments, BoxedValues& results) {
  const auto& op = static_cast<const DefinedOp&>(called_op());
  if (!intercepted()) return run_body(op, arguments, results);
  BoxedValues in(arguments.begin(), arguments.end());
  intercept(op, in, results);
}

BoxedValues read_all(ArgReader& args, const DefinedOp& op) {
  BoxedValues out;
  out.reserve(op.arguments.size());
  for (int i = 0; i < op.about.argument_count; ++i)
    out.push_back(args.has(i) ? boxed_argument(args, i, op.specs[static_cast<size_t>(i)].type)
                              : op.defaults[static_cast<size_t>(i)]);
  return out;
}

template <class F>
void each_tensor(const BoxedValues& values, F&& f) {
  for (const BoxedValue& value : values) {
    if (const auto* x = std::get_if<Tensor>(&value); x && x->defined()) f(*x);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
      for (const Tensor& x : *list)
        if (x.defined()) f(x);
  }
}

// The out form is no op of its own: the modes see the plain one, whose results are copied.
int call_out(lua_State* L, const DefinedOp& op, ArgReader& args, BoxedValues& in) {
  const int at = op.about.argument_count, count = op.about.result_count;
  std::vector<Tensor> outs;
  if (count == 1)
    outs.push_back(args.tensor(at));
  else
    outs = args.outs(at, count);
  const auto look_at = [&](const Tensor& x) {
    if (grad_enabled() && x.requires_grad()) fail_out_gradient(op.name);
    if (is_batched(x)) fail_out_in_vmap(op.name);
    check(!is_differentiated(x), op.name, ": out= cannot be used with forward-mode tangents");
  };
  each_tensor(in, look_at);
  for (const Tensor& out : outs) look_at(out);
  program::end_part(op);
  BoxedValues results;
  call_boxed(op, op.call, in, results);
  program::note_stored(op);
  for (size_t i = 0; i < outs.size(); ++i)
    store_out(op.name, outs[i], std::get<Tensor>(results[i]));
  if (count > 1) return push_items(L, args.slot(at), count);
  lua_pushvalue(L, args.slot(at));
  return 1;
}

// Upvalue: the op.
int l_call(lua_State* L) {
  const DefinedOp& op = op_at(L, lua_upvalueindex(1));
  ArgReader args(L, op.plain);
  BoxedValues in = read_all(args, op);
  if (op.has_out && args.has(op.about.argument_count)) return call_out(L, op, args, in);
  if (!intercepted()) {
    const int top = lua_gettop(L), count = push_body(L, op, in);
    if (!is_one_tensor(L, op, count)) results_from(L, top + 1, count, op, in, {}, kGiver);
    return count;
  }
  BoxedValues results;
  call_boxed(op, op.call, in, results);
  return push_results(L, results);
}

// The in-place form: the result of the plain one, written over the first argument.
int l_change(lua_State* L) {
  const DefinedOp& op = op_at(L, lua_upvalueindex(1));
  ArgReader args(L, op.in_place);
  Tensor x = args.tensor(0);
  BoxedValues in = read_all(args, op), results;
  check_unrecorded(x, op.in_place.op);
  in[0] = before_change(x);
  call_boxed(op, op.call, in, results);
  assign_(x, std::get<Tensor>(results.at(0)), op.in_place.op);
  lua_pushvalue(L, args.slot(0));
  return 1;
}

// --- definitions ---------------------------------------------------------------------------------

std::string text_field(lua_State* L, int table, const char* key) {
  lua_getfield(L, table, key);
  size_t length = 0;
  const char* const value = lua_tolstring(L, -1, &length);
  std::string out(value ? value : "", value ? length : 0);
  lua_pop(L, 1);
  return out;
}

bool flag_field(lua_State* L, int table, const char* key) {
  lua_getfield(L, table, key);
  const bool out = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return out;
}

// The sets of "floating+complex".
DTypeSet read_dtypes(const DefinedOp& op, std::string_view names) {
  DTypeSet out{};
  do {
    const std::string_view one = names.substr(0, names.find('+'));
    const SetName* const found = std::find_if(
        std::begin(kSets), std::end(kSets), [&](const SetName& each) { return each.name == one; });
    check(found != std::end(kSets), "ops.define: ", op.name,
          ": dtypes must be of all, any, boolean, integral, floating, complex and real, joined "
          "with '+', got \"",
          one, "\"");
    out |= found->set;
    names.remove_prefix(std::min(names.size(), one.size() + 1));
  } while (!names.empty());
  return out;
}

AutocastPolicy read_policy(lua_State* L, int table, const char* key, const DefinedOp& op) {
  const std::string name = text_field(L, table, key);
  if (name.empty()) return AutocastPolicy::None;
  if (name == "lower_precision") return AutocastPolicy::LowerPrecision;
  if (name == "float32") return AutocastPolicy::Float32;
  if (name == "promote") return AutocastPolicy::Promote;
  fail("ops.define: ", op.name,
       ": autocast must be \"lower_precision\", \"float32\" or "
       "\"promote\", got \"",
       name, "\"");
}

// One argument of the definition, a table at the top of the stack.
void add_argument(lua_State* L, DefinedOp& op) {
  const int table = lua_gettop(L);
  const char* const name = op.keep(text_field(L, table, "name"));
  const char* const type = op.keep(text_field(L, table, "type"));
  const TypeName* const known = type_of(type);
  check(known != nullptr, "ops.define: ", op.name, ": argument '", name, "' has the unknown type ",
        type);
  const std::string text = text_field(L, table, "default");
  const bool optional = flag_field(L, table, "optional");
  op.arguments.push_back(
      {name, type, text.empty() ? nullptr : op.keep(text), flag_field(L, table, "written")});
  const bool gathers = flag_field(L, table, "gather");
  op.specs.push_back({name, known->type, !optional, gathers, false, known->length});
}

void read_arguments(lua_State* L, int definition, DefinedOp& op) {
  lua_getfield(L, definition, "arguments");
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, -1));
  check(count < kMaxArgs - 1, "ops.define: ", op.name, ": an op has at most ", kMaxArgs - 2,
        " arguments, got ", static_cast<int64_t>(count));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    add_argument(L, op);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void read_row(lua_State* L, int definition, DefinedOp& op) {
  RowInfo& row = op.about;
  row.name = op.name;
  row.schema = op.keep(text_field(L, definition, "schema"));
  row.family = "defined";
  row.kind = OpKind::Composite;
  row.dtypes = read_dtypes(op, text_field(L, definition, "dtypes"));
  row.random = false;
  row.differentiable = flag_field(L, definition, "differentiable");
  row.autocast = {read_policy(L, definition, "autocast_host", op),
                  read_policy(L, definition, "autocast_device", op)};
  row.arguments = op.arguments.data();
  row.argument_count = static_cast<int>(op.arguments.size());
  lua_getfield(L, definition, "result_count");
  row.result_count = static_cast<int>(lua_tointeger(L, -1));
  lua_pop(L, 1);
}

// All that a definition says. The op is at its address for good.
void fill(lua_State* L, int definition, DefinedOp& op) {
  static_cast<OpInfo&>(op) = {op.keep(text_field(L, definition, "name")), &op.about,
                              OpInfo::Form::Plain, call_called, body_of_called};
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  op.main = lua_tothread(L, -1);
  lua_pop(L, 1);
  read_arguments(L, definition, op);
  read_row(L, definition, op);
  op.has_out = flag_field(L, definition, "out");
  op.gives_tensor = flag_field(L, definition, "gives_tensor");
  if (op.has_out)
    op.specs.push_back({"out", op.about.result_count == 1 ? ArgType::Tensor : ArgType::TensorList,
                        false, false, true, 0});
  const char* const usage = op.keep(text_field(L, definition, "usage"));
  op.plain = {op.name, usage, op.specs.data(), static_cast<int>(op.specs.size())};
  op.in_place = {op.keep(text_field(L, definition, "in_place_name")),
                 op.keep(text_field(L, definition, "in_place_usage")), op.specs.data(),
                 op.about.argument_count};
  lua_getfield(L, definition, "defaults");
  const BoxedValues none(op.arguments.size());
  op.defaults = arguments_at(L, lua_gettop(L), op, none);
  lua_pop(L, 1);
}

void push_cell(lua_State* L) {
  new (lua_newuserdatauv(L, sizeof(Cell), 0)) Cell{std::make_unique<DefinedOp>()};
  if (luaL_newmetatable(L, kName) != 0) {
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "op");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
}

void push_table(lua_State* L, const void* key) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

// definition, body -> the function that calls the op, and that of its in-place form. An op of the
// same name is not found by it any more; its functions stay as they are.
int l_define(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  push_cell(L);
  DefinedOp& op = *static_cast<Cell*>(lua_touserdata(L, 3))->op;
  fill(L, 1, op);
  push_table(L, &kBodies);
  lua_pushvalue(L, 2);
  lua_rawsetp(L, -2, &op);
  push_table(L, &kOps);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, static_cast<lua_Integer>(lua_rawlen(L, -2)) + 1);
  lua_pushvalue(L, 3);
  lua_setfield(L, -2, op.name);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, op_guard<l_call>, 1);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, op_guard<l_change>, 1);
  return 2;
}

// name -> whether the op table or a field of tensors has it.
int l_is_taken(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  return push_result(L, find_op(name) != nullptr || is_field(name));
}

const OpInfo* op_on_top(lua_State* L) {
  const auto* cell = static_cast<const Cell*>(luaL_testudata(L, -1, kName));
  return cell != nullptr ? cell->op.get() : nullptr;
}

}  // namespace

const OpInfo* find_defined(lua_State* L, std::string_view name) {
  luaL_checkstack(L, 4, "ops");
  push_table(L, &kOps);
  lua_pushlstring(L, name.data(), name.size());
  lua_rawget(L, -2);
  const OpInfo* const op = op_on_top(L);
  lua_pop(L, 2);
  return op;
}

std::vector<const OpInfo*> defined_ops(lua_State* L) {
  std::vector<const OpInfo*> out;
  luaL_checkstack(L, 4, "ops");
  push_table(L, &kOps);
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, -1));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    const OpInfo* const op = op_on_top(L);
    lua_pop(L, 1);
    if (op != nullptr && find_defined(L, op->name) == op) out.push_back(op);
  }
  lua_pop(L, 1);
  return out;
}

bool is_defined_op(lua_State* L, int index) {
  const lua_CFunction f = lua_tocfunction(L, index);
  return f == op_guard<l_call> || f == op_guard<l_change>;
}

void register_defined_ops(lua_State* L) {
  // The last two as captures know them.
  static const luaL_Reg kModule[] = {{"_define_op", guard<l_define>},
                                     {"_is_op_name", guard<l_is_taken>},
                                     {"_call_defined", op_guard<l_call>},
                                     {"_change_defined", op_guard<l_change>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
