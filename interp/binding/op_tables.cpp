// interp/binding/op_tables.cpp: ops as tables: `ml.ops.list()`, `ml.ops.info(name)`, and what a
// handler of `ml.override` gets.
#include "interp/binding/defined_ops.h"
#include "interp/binding/native_ops.h"
#include "interp/binding/op_values.h"
#include "interp/state/nearest.h"

namespace moonlet::binding {
namespace {

// One per interpreter: from the address of an OpInfo to its table.
constexpr char kTables = 0;

void set_text(lua_State* L, const char* key, const char* text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

void set_flag(lua_State* L, const char* key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

const char* form_name(OpInfo::Form form) {
  switch (form) {
    case OpInfo::Form::InPlace: return "in_place";
    case OpInfo::Form::Out: return "out";
    case OpInfo::Form::Plain: break;
  }
  return "plain";
}

const char* policy_name(AutocastPolicy policy) {
  switch (policy) {
    case AutocastPolicy::LowerPrecision: return "lower_precision";
    case AutocastPolicy::Float32: return "float32";
    case AutocastPolicy::Promote: return "promote";
    case AutocastPolicy::None: break;
  }
  return nullptr;
}

// Sets `autocast` of the table on top: a policy per type of device, or nothing.
void push_policies(lua_State* L, const AutocastPolicies& policies) {
  if (!policy_name(policies.host) && !policy_name(policies.device)) return;
  lua_createtable(L, 0, 2);
  for (const DeviceType type : device_types())
    if (const char* policy = policy_name(policies.on(type))) set_text(L, name(type), policy);
  lua_setfield(L, -2, "autocast");
}

void push_schema(lua_State* L, const std::vector<SchemaArgument>& schema, bool arguments) {
  lua_createtable(L, static_cast<int>(schema.size()), 0);
  for (size_t i = 0; i < schema.size(); ++i) {
    const SchemaArgument& spec = schema[i];
    lua_createtable(L, 0, 4);
    if (!spec.name.empty()) set_text(L, "name", spec.name.c_str());
    set_text(L, "type", spec.type.c_str());
    if (spec.default_value) set_text(L, "default", spec.default_value);
    if (arguments) set_flag(L, "written", spec.written);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
}

void push_dtypes(lua_State* L, DTypeSet set) {
  lua_newtable(L);
  lua_Integer count = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!contains(set, static_cast<DType>(i))) continue;
    const std::string_view text = name(static_cast<DType>(i));
    lua_pushlstring(L, text.data(), text.size());
    lua_rawseti(L, -2, ++count);
  }
}

// Upvalue: the positions by name.
int l_get_named(lua_State* L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  lua_rawget(L, 1);
  return 1;
}

int l_set_named(lua_State* L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (lua_isnil(L, -1)) {
    // A position that held nil.
    check(lua_isinteger(L, 2), "override: the op has no argument '", luaL_tolstring(L, 2, nullptr),
          "'");
    lua_pop(L, 1);
    lua_pushvalue(L, 2);
  }
  lua_pushvalue(L, 3);
  lua_rawset(L, 1);
  return 0;
}

// The metatable that lets names stand for positions.
void push_named(lua_State* L, const std::vector<SchemaArgument>& schema) {
  lua_createtable(L, 0, 2);
  lua_createtable(L, 0, static_cast<int>(schema.size()));
  for (size_t i = 0; i < schema.size(); ++i) {
    lua_pushinteger(L, static_cast<lua_Integer>(i + 1));
    lua_setfield(L, -2, schema[i].name.c_str());
  }
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, guard<l_get_named>, 1);
  lua_setfield(L, -3, "__index");
  lua_pushcclosure(L, guard<l_set_named>, 1);
  lua_setfield(L, -2, "__newindex");
}

void push_writes(lua_State* L, const std::vector<SchemaArgument>& arguments) {
  lua_newtable(L);
  lua_Integer count = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].written) continue;
    lua_pushinteger(L, static_cast<lua_Integer>(i + 1));
    lua_rawseti(L, -2, ++count);
  }
}

void push_new_op(lua_State* L, const OpInfo& op) {
  const std::vector<SchemaArgument> arguments = arguments_of(op);
  lua_createtable(L, 0, 16);
  set_text(L, "name", op.name);
  set_text(L, "row", op.row->name);
  set_text(L, "schema", op.row->schema);
  set_text(L, "form", form_name(op.form));
  set_text(L, "kind", name(op.row->kind));
  set_text(L, "family", op.row->family);
  push_policies(L, op.row->autocast);
  set_flag(L, "is_view", op.is_view());
  set_flag(L, "random", op.row->random);
  set_flag(L, "internal", op.row->internal);
  set_flag(L, "differentiable", op.row->differentiable);
  push_dtypes(L, op.row->dtypes);
  lua_setfield(L, -2, "dtypes");
  push_writes(L, arguments);
  lua_setfield(L, -2, "writes");
  push_schema(L, arguments, true);
  lua_setfield(L, -2, "arguments");
  push_schema(L, results_of(op), false);
  lua_setfield(L, -2, "results");
  push_named(L, arguments);
  lua_setfield(L, -2, "_named");
  set_declared(L, op);
}

int l_list(lua_State* L) {
  std::vector<const OpInfo*> ops = all_ops();
  const std::vector<const OpInfo*> own = defined_ops(L);
  ops.insert(ops.end(), own.begin(), own.end());
  lua_createtable(L, static_cast<int>(ops.size()), 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    lua_pushstring(L, ops[i]->name);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  return 1;
}

int l_info(lua_State* L) {
  check(lua_type(L, 1) == LUA_TSTRING, "ops.info: the name of an op is expected, got ",
        type_name(L, 1));
  const std::string_view wanted = lua_tostring(L, 1);
  const OpInfo* op = find_op(wanted);
  if (!op) op = find_defined(L, wanted);
  if (!op) {
    std::vector<const char*> names;
    for (const OpInfo* each : all_ops()) names.push_back(each->name);
    for (const OpInfo* each : defined_ops(L)) names.push_back(each->name);
    fail("ops.info: there is no op '", wanted, "'", did_you_mean(wanted, names));
  }
  push_op(L, *op);
  return 1;
}

}  // namespace

void push_op(lua_State* L, const OpInfo& op) {
  luaL_checkstack(L, 8, "too many arguments");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kTables) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kTables);
  }
  if (lua_rawgetp(L, -1, &op) != LUA_TTABLE) {
    lua_pop(L, 1);
    push_new_op(L, op);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, &op);
  }
  lua_remove(L, -2);
}

void register_op_tables(lua_State* L) {
  static const luaL_Reg kOps[] = {
      {"list", guard<l_list>}, {"info", guard<l_info>}, {nullptr, nullptr}};
  luaL_newlib(L, kOps);
  register_declared_ops(L);
  lua_setfield(L, -3, "_ops");
}

}  // namespace moonlet::binding
