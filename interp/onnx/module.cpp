// interp/onnx/module.cpp: ONNX's messages from Lua tables, by the plugin, which is opened on first
// use. A message is a table by the names of its fields, a repeated field a list; the elements of
// tensors are tensors. (stdlib/onnx/proto.lua reads them, without the plugin.)
#include "interp/modules/modules.h"

#include <cstring>

#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/onnx/codec.h"
#include "interp/state/guard.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/io/bytes.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet {
namespace {

struct Loaded {
  const OnnxCodec* codec = nullptr;
  std::string reason;
};

Loaded load() {
  Loaded out;
  for (const std::string& position :
       plugin_paths("moonlet-onnx.so", "interp/onnx", "MOONLET_ONNX_PLUGIN")) {
    std::string reason;
    void* handle = platform::open_library(position, platform::Binding::kNow, reason);
    if (handle == nullptr) {
      if (platform::exists(position)) out.reason = reason;
      continue;
    }
    const auto* codec = static_cast<const OnnxCodec*>(platform::find_symbol(handle, kOnnxCodec));
    if (codec != nullptr && codec->version == kOnnxVersion) return {codec, {}};
    out.reason = position + " was built for another Moonlet; build or install both together";
    platform::close_library(handle);
  }
  if (out.reason.empty())
    out.reason = "this Moonlet was built without ONNX (there is no moonlet-onnx.so beside it)";
  return out;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

const OnnxCodec& codec() {
  check(loaded().codec != nullptr, loaded().reason);
  return *loaded().codec;
}

// Runs `f`; what the libraries throw is told apart from what went wrong here.
template <class F>
void with_codec(F f) {
  const OnnxCodec& library = codec();
  try {
    f(library);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

std::string_view bytes_at(lua_State* L, int index) {
  size_t size = 0;
  const char* bytes = luaL_checklstring(L, index, &size);
  return {bytes, size};
}

// check(bytes): an error where ONNX's checker finds one
int l_check(lua_State* L) {
  const std::string_view model = bytes_at(L, 1);
  with_codec([&](const OnnxCodec& library) { library.check(model); });
  return 0;
}

// --- encoding ------------------------------------------------------------------------------------

constexpr int kMostLevels = 200;

void encode(lua_State* L, int index, OnnxVisitor& out, int depth);

void encode_list(lua_State* L, int table, OnnxVisitor& out, int depth) {
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, table));
  out.begin_list();
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, table, i);
    encode(L, lua_gettop(L), out, depth + 1);
    lua_pop(L, 1);
  }
  out.end_list();
}

bool is_empty_table(lua_State* L, int table) {
  if (!lua_istable(L, table)) return false;
  lua_pushnil(L);
  if (lua_next(L, table) == 0) return true;
  lua_pop(L, 2);
  return false;
}

// An empty table is a list of nothing, which need not be written; but a scalar has a shape.
void encode_message(lua_State* L, int table, OnnxVisitor& out, int depth) {
  out.begin_message();
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    check(lua_type(L, -2) == LUA_TSTRING, "a field of a model is named by a ",
          luaL_typename(L, -2));
    const char* name = lua_tostring(L, -2);
    if (std::strcmp(name, "shape") == 0 || !is_empty_table(L, lua_gettop(L))) {
      out.key(name);
      encode(L, lua_gettop(L), out, depth + 1);
    }
    lua_pop(L, 1);
  }
  out.end_message();
}

void encode_table(lua_State* L, int table, OnnxVisitor& out, int depth) {
  check(depth <= kMostLevels, "the model nests too deeply or contains itself");
  luaL_checkstack(L, 6, "a deep ONNX model");
  if (lua_rawlen(L, table) > 0)
    encode_list(L, table, out, depth);
  else
    encode_message(L, table, out, depth);
}

void encode(lua_State* L, int index, OnnxVisitor& out, int depth) {
  switch (lua_type(L, index)) {
    case LUA_TSTRING: return out.bytes(bytes_at(L, index));
    case LUA_TTABLE: return encode_table(L, index, out, depth);
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) return out.integer(lua_tointeger(L, index));
      return out.number(lua_tonumber(L, index));
    case LUA_TUSERDATA: {
      const Tensor rows = io::host_rows(binding::check_tensor(L, index, "onnx"), "onnx");
      return out.bytes(io::bytes_of(rows));
    }
    default: fail("a model holds no ", luaL_typename(L, index));
  }
}

// encode(table, checked = true) -> the bytes of the model, after ONNX's checker has looked at it
int l_encode(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const bool checked = lua_isnoneornil(L, 2) || lua_toboolean(L, 2) != 0;
  std::string bytes;
  with_codec([&](const OnnxCodec& library) {
    const std::unique_ptr<OnnxBuilder> builder = library.build();
    encode(L, 1, *builder, 1);
    bytes = builder->take(checked);
  });
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}

// unavailable() -> nil, or why there is no ONNX
int l_unavailable(lua_State* L) {
  if (loaded().codec != nullptr) return 0;
  lua_pushstring(L, loaded().reason.c_str());
  return 1;
}

constexpr luaL_Reg kFunctions[] = {{"check", guard<l_check>},
                                   {"encode", guard<l_encode>},
                                   {"unavailable", guard<l_unavailable>},
                                   {nullptr, nullptr}};

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_onnx_codec(lua_State* L) {
  luaL_newlib(L, moonlet::kFunctions);
  return 1;
}
