// interp/binding/program/purity.cpp: which C functions are functions of their arguments, and the
// hook that looks at each call.
#include "interp/binding/program/purity.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "interp/binding/native_ops.h"
#include "interp/binding/program/library_tables.h"
#include "interp/binding/registry.h"
#include "interp/binding/tensor/index.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/interrupt.h"
#include "interp/state/libraries.h"
#include "tensor/program/capture.h"

namespace moonlet::binding {
namespace {

// The watch of this thread that looks at calls now.
constinit thread_local CallWatch* current = nullptr;

constexpr std::initializer_list<const char*> kBasic = {
    "assert",   "error",    "getmetatable", "ipairs", "next",   "pairs",
    "pcall",    "rawequal", "rawget",       "rawlen", "rawset", "setmetatable",
    "tonumber", "tostring", "type",         "xpcall", "select"};
// Functions of `ml` beside the ops. Modes end with their block, which is looked at afterwards.
constexpr std::initializer_list<const char*> kModule = {"_address",
                                                        "_autocast",
                                                        "_gradients_dropped",
                                                        "_autocast_dtype",
                                                        "_autocast_state",
                                                        "_call_defined",
                                                        "_change_defined",
                                                        "_device_types",
                                                        "_differentiation_input",
                                                        "_differentiated_outside",
                                                        "_filled_as",
                                                        "_forward_level",
                                                        "_forward_tangents",
                                                        "_make_dual",
                                                        "_needs_graph",
                                                        "_same_padding",
                                                        "_stripped",
                                                        "_suspend_forward",
                                                        "_unpack_dual",
                                                        "_vmap_batch",
                                                        "_vmap_enclosing",
                                                        "_vmap_level",
                                                        "_vmap_outside",
                                                        "_vmap_part",
                                                        "_vmap_value",
                                                        "_where",
                                                        "_without_history",
                                                        "broadcast_shapes",
                                                        "can_cast",
                                                        "backward",
                                                        "enable_grad",
                                                        "finfo",
                                                        "get_default_device",
                                                        "get_default_dtype",
                                                        "get_float32_matmul_precision",
                                                        "get_num_threads",
                                                        "grad",
                                                        "iinfo",
                                                        "inference_mode",
                                                        "is_autocast_enabled",
                                                        "is_complex",
                                                        "is_floating_point",
                                                        "is_grad_enabled",
                                                        "is_inference_mode_enabled",
                                                        "is_signed",
                                                        "is_storage",
                                                        "is_tensor",
                                                        "new_tensor",
                                                        "no_grad",
                                                        "promote_types",
                                                        "result_type",
                                                        "scope",
                                                        "set_grad_enabled",
                                                        "tensor"};
// Methods of tensors that are no ops. Those that read elements end the capture by themselves.
constexpr std::initializer_list<const char*> kMethods = {"backward",
                                                         "requires_grad_",
                                                         "bfloat16",
                                                         "bool",
                                                         "detach",
                                                         "dim",
                                                         "dim_order",
                                                         "double",
                                                         "element_size",
                                                         "float",
                                                         "get_device",
                                                         "half",
                                                         "int",
                                                         "is_complex",
                                                         "is_contiguous",
                                                         "is_floating_point",
                                                         "is_inference",
                                                         "is_pinned",
                                                         "is_set_to",
                                                         "is_signed",
                                                         "item",
                                                         "long",
                                                         "numel",
                                                         "size",
                                                         "storage_offset",
                                                         "stride",
                                                         "tolist",
                                                         "totable",
                                                         "type",
                                                         "where",
                                                         "zero_",
                                                         "new_tensor"};
constexpr std::initializer_list<const char*> kTensorMetamethods = {
    "__call", "__concat", "__eq", "__index", "__len", "__pairs", "__tostring"};
constexpr std::initializer_list<const char*> kCheckingModules = {
    "moonlet.numbers", "moonlet.nearest", "moonlet.signature_reader"};

// The metatables of values that end a mode with their block; made when the first one is.
constexpr std::initializer_list<const char*> kGuards = {"moonlet.grad_mode", "moonlet.mode",
                                                        "moonlet.vmap_level"};

// Whether the call is the end of such a mode.
bool ends_mode(lua_State* L, lua_Debug* call, lua_CFunction f) {
  if (lua_getlocal(L, call, 1) == nullptr) return false;
  bool ends = false;
  for (const char* name : kGuards) {
    if (luaL_testudata(L, -1, name) == nullptr) continue;
    luaL_getmetafield(L, -1, "__close");
    ends = lua_tocfunction(L, -1) == f;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return ends;
}

// Whether a call of `require` gives a module that is loaded already.
bool is_loaded(lua_State* L, lua_Debug* call) {
  if (lua_getlocal(L, call, 1) == nullptr) return false;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_insert(L, -2);
  const bool loaded = lua_type(L, -1) == LUA_TSTRING && lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return loaded;
}

// Whether the function that runs was called by code of the library: errors that this catches go on.
bool called_by_library(lua_State* L) {
  lua_Debug caller;
  if (lua_getstack(L, 1, &caller) == 0) return false;
  lua_getinfo(L, "f", &caller);
  const bool library = lua_iscfunction(L, -1) == 0 && is_library_function(L, -1);
  lua_pop(L, 1);
  return library;
}

// Pushes ml, or nothing.
bool push_module(lua_State* L) {
  const int ref = binding_state(L).module_ref;
  return ref != 0 && lua_rawgeti(L, LUA_REGISTRYINDEX, ref) == LUA_TTABLE;
}

}  // namespace

std::string script_line(lua_State* L) {
  lua_Debug info;
  if (!find_where(L, info)) return {};
  return text(info.short_src, ":", info.currentline);
}

// --- the functions -------------------------------------------------------------------------------

PureFunctions::PureFunctions(lua_State* L) {
  luaL_checkstack(L, 12, "compile");
  const int top = lua_gettop(L);
  add_lua_libraries(L);
  add_ops();
  add_iterators(L);
  if (push_module(L)) {
    add_module(L);
    add_tensors(L);
  }
  lua_settop(L, top);
}

void PureFunctions::add_from(lua_State* L, int table, std::initializer_list<const char*> names) {
  table = lua_absindex(L, table);
  for (const char* name : names) {
    lua_pushstring(L, name);
    lua_rawget(L, table);
    if (const lua_CFunction f = lua_tocfunction(L, -1)) functions_.insert(f);
    lua_pop(L, 1);
  }
}

void PureFunctions::add_all(lua_State* L, int table, std::initializer_list<std::string_view> but) {
  table = lua_absindex(L, table);
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    const lua_CFunction f = lua_tocfunction(L, -1);
    const bool named = lua_type(L, -2) == LUA_TSTRING;
    if (f != nullptr && named &&
        std::find(but.begin(), but.end(), std::string_view(lua_tostring(L, -2))) == but.end())
      functions_.insert(f);
    lua_pop(L, 1);
  }
}

void PureFunctions::add_lua_libraries(lua_State* L) {
  const auto from = [&](auto&& each) {
    lua_pushglobaltable(L);
    each();
    lua_pop(L, 1);
    if (!push_stdlib_environment(L)) return;
    each();
    lua_pop(L, 1);
  };
  lua_getglobal(L, "pcall");
  lua_getglobal(L, "xpcall");
  pcall_ = lua_tocfunction(L, -2);
  xpcall_ = lua_tocfunction(L, -1);
  lua_getglobal(L, "load");
  lua_getglobal(L, "require");
  load_ = lua_tocfunction(L, -2);
  require_ = lua_tocfunction(L, -1);
  lua_pop(L, 4);
  from([&] {
    add_from(L, -1, kBasic);
    for (const char* name : {LUA_MATHLIBNAME, LUA_STRLIBNAME, LUA_TABLIBNAME, LUA_UTF8LIBNAME}) {
      lua_pushstring(L, name);
      if (lua_rawget(L, -2) == LUA_TTABLE) add_all(L, -1, {"random", "randomseed"});
      lua_pop(L, 1);
    }
    lua_pushliteral(L, LUA_DBLIBNAME);
    if (lua_rawget(L, -2) == LUA_TTABLE) add_from(L, -1, {"getinfo", "traceback"});
    lua_pop(L, 1);
  });
}

void PureFunctions::add_ops() {
  functions_.insert(native_op_function());
  for (int f = 0; f < kOpFamilyCount; ++f)
    for (int i = 0; i < kOpFamilies[f]->count; ++i)
      if (const lua_CFunction function = kOpFamilies[f]->entries[i].function)
        functions_.insert(function);
}

// What `ipairs`, `string.gmatch` and `utf8.codes` give to a loop.
void PureFunctions::add_iterators(lua_State* L) {
  if (const lua_CFunction step = binding_state(L).ipairs_step) functions_.insert(step);
  for (const char* name : {"gmatch", "codes"}) {
    if (!push_library(L, *name == 'g' ? LUA_STRLIBNAME : LUA_UTF8LIBNAME)) continue;
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    if (lua_tocfunction(L, -1) != nullptr) {
      lua_pushliteral(L, "");
      lua_pushliteral(L, "");
      if (lua_pcall(L, *name == 'g' ? 2 : 1, 1, 0) == LUA_OK)
        if (const lua_CFunction step = lua_tocfunction(L, -1)) functions_.insert(step);
    }
    lua_pop(L, 2);
  }
}

// ml lies on top.
void PureFunctions::add_module(lua_State* L) {
  add_from(L, -1, kModule);
  // A compiled function inside one that is captured.
  lua_pushliteral(L, "_compiled");
  if (lua_rawget(L, -2) == LUA_TTABLE) add_all(L, -1, {});
  lua_pop(L, 1);
  if (lua_getmetatable(L, -1) != 0) {
    add_from(L, -1, {"__index"});
    lua_pop(L, 1);
  }
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (const char* name : kCheckingModules) {
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    if (lua_istable(L, -1)) add_all(L, -1, {});
    if (const lua_CFunction f = lua_tocfunction(L, -1)) functions_.insert(f);
    lua_pop(L, 1);
  }
  // What looks an unknown name of a namespace up; to load a module calls `require`.
  lua_pushliteral(L, "moonlet.linalg");
  lua_rawget(L, -2);
  if (lua_getmetatable(L, -1) != 0) {
    add_from(L, -1, {"__index"});
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

// Of an `__index` on top: a table, or a C function that has one.
void PureFunctions::add_methods(lua_State* L) {
  if (lua_istable(L, -1)) add_all(L, -1, {});
  if (lua_iscfunction(L, -1) == 0) return;
  for (int i = 1; lua_getupvalue(L, -1, i) != nullptr; ++i) {
    if (lua_istable(L, -1)) add_all(L, -1, {});
    lua_pop(L, 1);
  }
}

// ml lies on top.
void PureFunctions::add_tensors(lua_State* L) {
  const BindingState& state = binding_state(L);
  lua_pushliteral(L, "_methods");
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) {
    add_from(L, -1, kMethods);
    for (const DeviceType type : device_types()) add_from(L, -1, {name(type)});
    for (const auto& [name, to] : {std::pair{"register_hook", &register_hook_}, {"free", &free_}}) {
      lua_pushstring(L, name);
      lua_rawget(L, -2);
      *to = lua_tocfunction(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.metatable_ref);
  add_from(L, -1, kTensorMetamethods);
  lua_pushliteral(L, "__newindex");
  lua_rawget(L, -2);
  tensor_newindex_ = lua_tocfunction(L, -1);
  lua_pop(L, 2);
  for (const int ref : {state.shape_ref, state.complex_ref}) {
    if (ref == 0) continue;
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
    add_all(L, -1, {"__newindex", "__gc"});
    lua_pushliteral(L, "__index");
    lua_rawget(L, -2);
    add_methods(L);
    lua_pop(L, 2);
  }
}

// --- the hook ------------------------------------------------------------------------------------

CallWatch::CallWatch(lua_State* L, program::Capture& capture, const PureFunctions& pure)
    : L_(L),
      capture_(capture),
      pure_(pure),
      before_(lua_gethook(L)),
      before_mask_(lua_gethookmask(L)),
      before_count_(lua_gethookcount(L)),
      outer_(current) {
  current = this;
  lua_sethook(L, meet, before_mask_ | LUA_MASKCALL, before_count_);
}

bool CallWatch::end() noexcept {
  if (running_) {
    running_ = false;
    if (current == this) current = outer_;
    whole_ = lua_gethook(L_) == meet;
    if (whole_) lua_sethook(L_, before_, before_mask_, before_count_);
  }
  return whole_;
}

// Whether the first argument is a tensor that the function has made: a hook on it ends with it, or
// is found on the tape of the results, and nobody else has it who could miss it.
bool CallWatch::is_of_own(lua_State* L, lua_Debug* event) const {
  if (lua_getlocal(L, event, 1) == nullptr) return false;
  const Tensor* const t = tensor_cell(L, -1);
  // No vmap was begun before.
  bool own = t != nullptr && t->defined() && t->device().is_batched();
  if (t != nullptr && t->defined() && capture_.knows(*t)) {
    const program::Graph& graph = capture_.graph();
    const program::Value& value = graph.values[capture_.value_of(*t)];
    own = graph.buffers[value.buffer].kind == program::Buffer::Kind::Internal;
  }
  lua_pop(L, 1);
  return own;
}

void CallWatch::meet(lua_State* L, lua_Debug* event) {
  if (current != nullptr && current->L_ == L)
    current->look(L, event);
  else
    set_usual_hook(L);
}

void CallWatch::look(lua_State* L, lua_Debug* event) {
  const int kind = event->event == LUA_HOOKCOUNT  ? LUA_MASKCOUNT
                   : event->event == LUA_HOOKLINE ? LUA_MASKLINE
                   : event->event == LUA_HOOKRET  ? LUA_MASKRET
                                                  : LUA_MASKCALL;
  if (before_ != nullptr && (before_mask_ & kind) != 0) before_(L, event);
  if (kind != LUA_MASKCALL || !running_) return;
  lua_getinfo(L, "f", event);
  const lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  if (f == nullptr) return;
  if (pure_.catches(f)) caught_ = caught_ || !called_by_library(L);
  if (pure_.contains(f) || ends_mode(L, event, f)) return;
  if (pure_.requires_module(f) && is_loaded(L, event)) return;
  if (pure_.is_for_own(f) && is_of_own(L, event)) return;
  // The library compiles what reads its arguments at first use.
  if (pure_.loads(f) && called_by_library(L)) return;
  if (!pure_.assigns(f)) return stop(L, event, false);
  if (lua_getlocal(L, event, 2) == nullptr) return;
  // What becomes of gradients is part of a program (autograd/program/leaf_gradients.h).
  const bool field = lua_type(L, -1) == LUA_TSTRING && !is_index_text(lua_tostring(L, -1)) &&
                     std::string_view(lua_tostring(L, -1)) != "grad";
  lua_pop(L, 1);
  if (field) stop(L, event, true);
}

void CallWatch::stop(lua_State* L, lua_Debug* event, bool assigns) {
  lua_getinfo(L, "n", event);
  // Lua tells no name of what C functions call: an unknown name of the library loads its part.
  const std::string name = event->name != nullptr ? event->name : "require or another C function";
  // Before the end, as it asks where the script is.
  capture_.stop(assigns ? "it sets a field of a tensor"
                        : text("it calls ", name, ", which may do more than compute"));
  if (execution.capture == &capture_) execution.capture = nullptr;
  end();
  whole_ = false;
}

}  // namespace moonlet::binding
