// interp/binding/native_ops.cpp: the Lua functions of ops that C++ declares at run time: the reader
// of arguments by what the schema says, and where scripts find them.
#include "interp/binding/native_ops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "autograd/native/native_record.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/boxed_argument.h"
#include "interp/state/namespace.h"

namespace moonlet::binding {
namespace {

// One form of an op as scripts call it. Made once for the process.
struct ScriptOp {
  const NativeRecord* record = nullptr;
  const OpInfo* op = nullptr;
  std::string name, usage;
  std::vector<ArgSpec> specs;
  Signature signature{};
  BoxedValues defaults;
  bool takes_out = false;
};

ArgType reader_of(std::string_view type) {
  if (type.ends_with('?')) type.remove_suffix(1);
  if (type == "Tensor[]") return ArgType::TensorList;
  if (type == "Operand") return ArgType::Operand;
  if (type == "Scalar") return ArgType::Scalar;
  if (type == "int") return ArgType::Int;
  if (type == "int[]") return ArgType::IntList;
  if (type == "int[*]") return ArgType::IntVector;
  if (type == "float") return ArgType::Float;
  if (type == "float[*]") return ArgType::FloatVector;
  if (type == "bool") return ArgType::Bool;
  if (type == "string") return ArgType::String;
  if (type == "Dim" || type == "NewDim") return ArgType::Dim;
  if (type == "Dim[]") return ArgType::DimList;
  if (type == "DType") return ArgType::DType;
  if (type == "Device") return ArgType::Device;
  return ArgType::Tensor;
}

// The default as a script would write it: dims count from 1.
std::string script_default(const OpSchema::Argument& argument) {
  if (argument.default_text.empty()) return "nil";
  const std::string& text = argument.default_text;
  const bool counts = argument.type->from_one && std::isdigit(static_cast<unsigned char>(text[0]));
  return counts ? std::to_string(std::stoll(text) + 1) : text;
}

// "softmax(x, dim=2)"
std::string usage_of(const OpSchema& schema, const std::string& name) {
  std::string out = name + "(";
  for (const OpSchema::Argument& each : schema.arguments) {
    const bool required = each.default_text.empty() && !each.type->optional;
    out += (out.back() == '(' ? "" : ", ") + each.name;
    if (!required) out += "=" + script_default(each);
  }
  return out + ")";
}

// Where scripts find it: "ops.mylib.snake" or "snake".
std::string script_name(const OpSchema& schema) {
  if (schema.library().empty()) return schema.name;
  return "ops." + std::string(schema.library()) + "." + std::string(schema.short_name());
}

std::unique_ptr<ScriptOp> make_script_op(const NativeRecord& r, const OpInfo& op) {
  auto made = std::make_unique<ScriptOp>();
  made->record = &r;
  made->op = &op;
  const bool in_place = op.form == OpInfo::Form::InPlace;
  made->name = r.schema.name + (in_place ? "_" : "");
  made->usage = usage_of(r.schema, made->name);
  for (size_t i = 0; i < r.schema.arguments.size(); ++i) {
    const OpSchema::Argument& each = r.schema.arguments[i];
    ArgSpec spec{each.name.c_str(), reader_of(each.type->name)};
    spec.required = each.default_text.empty() && !each.type->optional;
    if (each.type->optional && each.type->tensor) spec.type = ArgType::OptionalTensor;
    // A list may come as several numbers where nothing follows that they could be.
    const bool list = spec.type == ArgType::IntList || spec.type == ArgType::DimList;
    spec.gather = list && i + 1 == r.schema.arguments.size();
    made->specs.push_back(spec);
    made->defaults.push_back(spec.required ? BoxedValue() : default_of(r.schema, each));
  }
  made->takes_out = op.form == OpInfo::Form::Plain;
  if (made->takes_out) {
    ArgSpec out{"out", r.schema.results.size() == 1 ? ArgType::Tensor : ArgType::TensorList};
    out.required = false;
    out.named_only = true;
    made->specs.push_back(out);
  }
  made->signature = {made->name.c_str(), made->usage.c_str(), made->specs.data(),
                     static_cast<int>(made->specs.size())};
  return made;
}

const ScriptOp& script_op(const NativeRecord& r, const OpInfo& op) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<const OpInfo*, std::unique_ptr<ScriptOp>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<ScriptOp>& found = known[&op];
  if (!found) found = make_script_op(r, op);
  return *found;
}

int call_with_out(lua_State* L, const ScriptOp& it, ArgReader& args, const BoxedValues& given) {
  const auto at = static_cast<int>(given.size());
  const int count = it.record->row.result_count;
  std::vector<Tensor> outs;
  if (count == 1)
    outs.push_back(args.tensor(at));
  else
    outs = args.outs(at, count);
  BoxedValues all(outs.begin(), outs.end());
  all.insert(all.end(), given.begin(), given.end());
  call_op(it.record->out_op, all);
  if (count > 1) return push_items(L, args.slot(at), count);
  lua_pushvalue(L, args.slot(at));
  return 1;
}

int l_native_op(lua_State* L) {
  const ScriptOp& it = *static_cast<const ScriptOp*>(lua_touserdata(L, lua_upvalueindex(1)));
  ArgReader args(L, it.signature);
  BoxedValues given;
  given.reserve(it.defaults.size());
  for (size_t i = 0; i < it.defaults.size(); ++i) {
    const auto at = static_cast<int>(i);
    given.push_back(args.has(at) || it.specs[i].required
                        ? boxed_argument(args, at, it.specs[i].type)
                        : it.defaults[i]);
  }
  const auto out = static_cast<int>(given.size());
  if (it.takes_out && args.has(out)) return call_with_out(L, it, args, given);
  const bool in_place = it.op->form == OpInfo::Form::InPlace;
  BoxedValues results = call_op(*it.op, given);
  if (in_place) {
    lua_pushvalue(L, args.slot(0));
    return 1;
  }
  given.clear();
  int count = 0;
  for (BoxedValue& each : results) {
    auto* y = std::get_if<Tensor>(&each);
    count += push_result(L, y != nullptr ? std::move(*y) : Tensor());
  }
  return count;
}

// Sets the field of the table on top to the value below it, which then is on top. Another value
// that is there is an error.
void set_new_field(lua_State* L, const std::string& name, const std::string& called) {
  lua_pushlstring(L, name.data(), name.size());
  const bool taken = lua_rawget(L, -2) != LUA_TNIL && !lua_rawequal(L, -1, -3);
  if (taken) fail("native_op: ", called, " is another function already");
  lua_pop(L, 1);
  lua_pushlstring(L, name.data(), name.size());
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

// Pushes `ml`, or the table of a library in `ml.ops`, which is made where there is none.
void push_namespace(lua_State* L, std::string_view library) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).module_ref);
  if (library.empty()) return;
  lua_getfield(L, -1, "ops");
  const std::string name(library);
  lua_pushlstring(L, name.data(), name.size());
  const int type = lua_rawget(L, -2);
  if (type != LUA_TNIL && type != LUA_TTABLE)
    fail("native_op: ml.ops.", name, " is another function already");
  if (type == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    make_namespace(L, ("ops." + name).c_str());
    // What compiled functions read of it they take as given, as of all modules.
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, ("moonlet.ops." + name).c_str());
    lua_pop(L, 1);
    lua_pushlstring(L, name.data(), name.size());
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}

// The function of a form: the same value each time in one interpreter.
void push_function(lua_State* L, const ScriptOp& it) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &it) == LUA_TFUNCTION) return;
  lua_pop(L, 1);
  lua_pushlightuserdata(L, const_cast<ScriptOp*>(&it));
  lua_pushcclosure(L, native_op_function(), 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &it);
}

void install_form(lua_State* L, const ScriptOp& it, int module) {
  const NativeRecord& r = *it.record;
  const bool in_place = it.op->form == OpInfo::Form::InPlace;
  const std::string name = std::string(r.schema.short_name()) + (in_place ? "_" : "");
  push_function(L, it);
  push_namespace(L, r.schema.library());
  set_new_field(L, name, "ml." + script_name(r.schema) + (in_place ? "_" : ""));
  const OpSchema::Argument* first = r.schema.arguments.empty() ? nullptr : &r.schema.arguments[0];
  if (r.method && first && std::string_view(first->type->name) == "Tensor") {
    push_namespace(L, "");
    lua_getfield(L, -1, "_methods");
    lua_remove(L, -2);
    set_new_field(L, name, "the method " + name + " of tensors");
  }
  if (module != 0) {
    lua_pushvalue(L, -1);
    lua_setfield(L, module, name.c_str());
  }
  lua_pop(L, 1);
}

// Whether `ml` has a field of that name that is loaded at its first use.
bool is_late_field(lua_State* L, const std::string& name) {
  push_namespace(L, "");
  lua_getfield(L, -1, "_late");
  lua_call(L, 0, 1);
  const bool found = lua_getfield(L, -1, name.c_str()) != LUA_TNIL;
  lua_pop(L, 3);
  return found;
}

}  // namespace

namespace {

void set_text(lua_State* L, const char* key, const std::string& value) {
  lua_pushlstring(L, value.data(), value.size());
  lua_setfield(L, -2, key);
}
void set_texts(lua_State* L, const char* key, const std::vector<std::string>& values) {
  lua_createtable(L, static_cast<int>(values.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    lua_pushlstring(L, values[i].data(), values[i].size());
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  lua_setfield(L, -2, key);
}

}  // namespace

void set_declared(lua_State* L, const OpInfo& op) {
  const NativeRecord* r = native_record_of(*op.row);
  if (r == nullptr) return;
  lua_createtable(L, 0, 12);
  set_text(L, "call", script_name(r->schema));
  set_text(L, "usage", usage_of(r->schema, script_name(r->schema)));
  set_text(L, "doc", r->doc);
  set_text(L, "example", r->example);
  set_texts(L, "samples", r->samples);
  set_texts(L, "nodiff", r->without_gradient);
  std::vector<std::string> gradients;
  for (const NativeRecord::Gradient& each : r->gradients)
    for (const int at : each.arguments)
      gradients.push_back(r->schema.arguments[static_cast<size_t>(at)].name);
  set_texts(L, "gradients", gradients);
  lua_newtable(L);
  for (const NativeRecord::ArgumentText& each : r->texts) set_text(L, each.name.c_str(), each.text);
  lua_setfield(L, -2, "texts");
  lua_pushboolean(L, r->has_inplace() ? 1 : 0);
  lua_setfield(L, -2, "inplace");
  lua_pushboolean(L, r->method ? 1 : 0);
  lua_setfield(L, -2, "method");
  lua_setfield(L, -2, "declared");
}

namespace {

std::vector<const NativeRecord*> declared_ops() {
  std::vector<const NativeRecord*> out;
  for (const OpInfo* op : all_ops())
    if (const NativeRecord* r = native_record_of(*op->row); r && op->form == OpInfo::Form::Plain)
      out.push_back(r);
  return out;
}

const char* editor_type(std::string_view type) {
  if (type.ends_with('?')) type.remove_suffix(1);
  if (type == "Tensor[]") return "moonlet.Tensor[]";
  if (type == "Operand") return "moonlet.Tensor|number|moonlet.Complex";
  if (type == "Scalar") return "number|boolean|moonlet.Complex";
  if (type == "int" || type == "Dim" || type == "NewDim") return "integer";
  if (type == "int[]" || type == "int[*]" || type == "Dim[]") return "integer|integer[]";
  if (type == "float") return "number";
  if (type == "float[*]") return "number|number[]";
  if (type == "bool") return "boolean";
  if (type == "string" || type == "Device") return "string";
  if (type == "DType") return "moonlet.dtype";
  return "moonlet.Tensor";
}

// The annotated declaration of one function; of a method, without its first argument.
std::string stub_of(const NativeRecord& r, const std::string& function, bool method) {
  std::string out, names;
  for (size_t at = 0; !r.doc.empty() && at < r.doc.size();) {
    const size_t end = std::min(r.doc.find('\n', at), r.doc.size());
    out += "--- " + r.doc.substr(at, end - at) + "\n";
    at = end + 1;
  }
  for (size_t i = method ? 1 : 0; i < r.schema.arguments.size(); ++i) {
    const OpSchema::Argument& each = r.schema.arguments[i];
    const bool optional = !each.default_text.empty() || each.type->optional;
    out += "---@param " + each.name + (optional ? "? " : " ") + editor_type(each.type->name);
    for (const NativeRecord::ArgumentText& text : r.texts)
      if (text.name == each.name) out += " " + text.text;
    out += "\n";
    names += (names.empty() ? "" : ", ") + each.name;
  }
  for (const OpSchema::Result& each : r.schema.results)
    out += "---@return moonlet.Tensor " + each.name + "\n";
  return out + "function " + function + "(" + names + ") end\n\n";
}

int l_stubs(lua_State* L) {
  std::string out = "---@meta\n\n---@class moonlet.Tensor\nlocal Tensor = {}\n\n";
  std::string library;
  for (const NativeRecord* r : declared_ops()) {
    if (r->schema.library() != library) {
      library = r->schema.library();
      if (!library.empty()) out += "ml.ops." + library + " = {}\n\n";
    }
    const bool method = r->method && !r->schema.arguments.empty() &&
                        std::string_view(r->schema.arguments[0].type->name) == "Tensor";
    for (const char* form : {"", "_"}) {
      if (*form != 0 && !r->has_inplace()) continue;
      out += stub_of(*r, "ml." + script_name(r->schema) + form, false);
      if (method) out += stub_of(*r, "Tensor:" + std::string(r->schema.short_name()) + form, true);
    }
  }
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

int l_declared(lua_State* L) {
  const std::vector<const NativeRecord*> all = declared_ops();
  lua_createtable(L, static_cast<int>(all.size()), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    lua_pushstring(L, all[i]->name());
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  return 1;
}

}  // namespace

void register_declared_ops(lua_State* L) {
  lua_pushcfunction(L, guard<l_stubs>);
  lua_setfield(L, -2, "stubs");
  lua_pushcfunction(L, guard<l_declared>);
  lua_setfield(L, -2, "_declared");
}

lua_CFunction native_op_function() { return op_guard<l_native_op>; }

void install_native_op(lua_State* L, const OpInfo& op, int module) {
  const NativeRecord* record = native_record_of(*op.row);
  check(record != nullptr, "native_op: '", op.name, "' was not declared in C++");
  luaL_checkstack(L, 10, "native_op");
  // The fields of `ml` and the methods are those of the module that scripts require.
  if (binding_state(L).module_ref == 0) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moonlet");
    lua_call(L, 1, 0);
  }
  const OpSchema& schema = record->schema;
  if (schema.library().empty() && is_late_field(L, schema.name))
    fail("native_op: ml.", schema.name, " is a module of the library");
  install_form(L, script_op(*record, record->plain_op), module);
  if (record->has_inplace()) install_form(L, script_op(*record, record->inplace_op), module);
}

}  // namespace moonlet::binding
