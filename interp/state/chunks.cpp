// interp/state/chunks.cpp: load, loadfile, dofile and require of text chunks.
#include "interp/state/chunks.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "interp/state/bundled.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/state.h"
#include "tensor/core/platform/files.h"
#include "tensor/io/file_system.h"
#include "tensor/io/files.h"
#include "tensor/runtime/stack.h"

namespace moonlet {
namespace {

// Adds to the error message on top of the stack how to load what it refuses.
void explain(lua_State* L) {
  const char* message = lua_tostring(L, -1);
  if (message == nullptr || state_data(L).options.bytecode) return;
  if (std::strstr(message, "attempt to load a binary chunk") == nullptr) return;
  lua_pushliteral(L, "; compiled chunks are loaded under --bytecode only");
  lua_concat(L, 2);
}

// Calls the library's function with the mode at `index` (if any) taken down to text, unless the
// state takes compiled chunks.
int call_with_text_mode(lua_State* L, int index) {
  if (state_data(L).options.bytecode) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  const std::string given = luaL_optstring(L, index, "bt");
  if (lua_gettop(L) < index) lua_settop(L, index);
  lua_pushstring(L, given.find('t') != given.npos ? "t" : "");
  lua_replace(L, index);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_gettop(L) == 2 && lua_isnil(L, 1)) explain(L);
  return lua_gettop(L);
}

// --- load ----------------------------------------------------------------------------------------

// A chunk, given to the compiler in pieces, between which requests to stop are met. The compiler
// recurses, at most once for each character: on a small stack that is looked at, too.
struct Source {
  std::string_view rest;
  bool is_function = false;  // at 1, whose results are the chunk; the last one is at kKept
  bool stopped = false;      // by a request, which is no fault of the chunk
};

constexpr int kKept = 5;
constexpr size_t kPiece = 4096, kPieceOfSmallStack = 16;

// Takes the next string from the function; false when there is none.
bool call_for_more(lua_State* L, Source& source) {
  luaL_checkstack(L, 2, "too many nested functions");
  lua_pushvalue(L, 1);
  lua_call(L, 0, 1);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  if (lua_isstring(L, -1) == 0) luaL_error(L, "reader function must return a string");
  lua_replace(L, kKept);
  size_t size = 0;
  const char* text = lua_tolstring(L, kKept, &size);
  source.rest = {text, size};
  return true;
}

const char* read_piece(lua_State* L, void* given, size_t* size) {
  auto& source = *static_cast<Source*>(given);
  source.stopped = state_data(L).stop.requested();
  raise_stop(L);
  if (stack_is_short()) luaL_error(L, "C stack overflow");
  *size = 0;
  if (source.rest.empty() && source.is_function && !call_for_more(L, source)) return nullptr;
  const std::string_view piece =
      source.rest.substr(0, stack_is_small() ? kPieceOfSmallStack : kPiece);
  source.rest.remove_prefix(piece.size());
  *size = piece.size();
  return piece.data();
}

// The results of `load`: stack as lua_load leaves it.
int finish_load(lua_State* L, int status, bool has_environment) {
  if (status != LUA_OK) {
    explain(L);
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (has_environment) {
    lua_pushvalue(L, 4);
    if (lua_setupvalue(L, -2, 1) == nullptr) lua_pop(L, 1);
  }
  return 1;
}

int l_load(lua_State* L) {
  size_t size = 0;
  const char* text = lua_tolstring(L, 1, &size);
  const char* name = luaL_optstring(L, 2, text != nullptr ? text : "=(load)");
  const char* mode = luaL_optstring(L, 3, "bt");
  if (text == nullptr) luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!state_data(L).options.bytecode) mode = std::strchr(mode, 't') != nullptr ? "t" : "";
  const bool has_environment = !lua_isnone(L, 4);
  Source source;
  if (text != nullptr) {
    source.rest = {text, size};
  } else {
    source.is_function = true;
    lua_settop(L, kKept);
  }
  const int status = lua_load(L, read_piece, &source, name, mode);
  return source.stopped ? lua_error(L) : finish_load(L, status, has_environment);
}

// --- files ---------------------------------------------------------------------------------------

// A file of the host's, which Lua itself cannot open.
int load_given_file(lua_State* L) {
  const char* path = luaL_checkstring(L, 1);
  const char* mode = luaL_optstring(L, 2, "bt");
  const bool has_environment = !lua_isnone(L, 3);
  const int status =
      std::strpbrk(mode, chunk_mode(L)) != nullptr
          ? load_file(L, path)
          : (lua_pushfstring(L, "attempt to load %s (mode is '%s')", path, mode), LUA_ERRSYNTAX);
  if (status == LUA_OK && has_environment) {
    lua_pushvalue(L, 3);
    if (lua_setupvalue(L, -2, 1) == nullptr) lua_pop(L, 1);
  }
  if (status == LUA_OK) return 1;
  luaL_pushfail(L);
  lua_insert(L, -2);
  return 2;
}

// Whether the file of this path, or of none, is of the host or the bundle. Those of the system are
// not for scripts without the library io.
bool is_given(lua_State* L, const char* path) {
  const StateData& data = state_data(L);
  if (data.files == nullptr) return false;
  if (path == nullptr ? data.options.files.size != nullptr : data.files->covers(path)) return true;
  if (!data.options.libraries.io)
    fail("this interpreter has no access to files: '", path != nullptr ? path : "stdin", "'");
  return false;
}

int load_text_file(lua_State* L) {
  if (is_given(L, luaL_optstring(L, 1, nullptr))) return load_given_file(L);
  return call_with_text_mode(L, 2);
}

int results_of_file(lua_State* L, int, lua_KContext) { return lua_gettop(L) - 1; }

int do_text_file(lua_State* L) {
  const char* path = luaL_optstring(L, 1, nullptr);
  lua_settop(L, 1);
  is_given(L, path);
  if (load_file(L, path) != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, results_of_file);
  return results_of_file(L, 0, 0);
}

// package.searchpath among the files of the bundle and the host. The path lies on top; leaves its
// results in its stead and in that of the function and the name below it. Where there is no such
// file and no host, nothing is changed, and false is returned.
bool find_given(lua_State* L, const char* name) {
  const StateData& data = state_data(L);
  if (const io::BundleEntry* entry = find_bundled_module(data, name)) {
    lua_pop(L, 3);
    lua_pushlstring(L, entry->name.data(), entry->name.size());
    lua_pushnil(L);
    return true;
  }
  const std::string path = lua_tostring(L, -1);
  std::string file_name = name, tried;
  std::replace(file_name.begin(), file_name.end(), '.', '/');
  for (size_t from = 0; from < path.size();) {
    const size_t end = std::min(path.find(';', from), path.size());
    std::string file = path.substr(from, end - from);
    from = end + 1;
    for (size_t at = 0; (at = file.find('?', at)) != file.npos; at += file_name.size())
      file.replace(at, 1, file_name);
    if (data.files->size(file)) {
      lua_pop(L, 3);
      lua_pushlstring(L, file.data(), file.size());
      lua_pushnil(L);
      return true;
    }
    tried += "\n\tno file '" + file + "'";
  }
  if (!data.options.files.size) return false;
  lua_pop(L, 3);
  lua_pushnil(L);
  lua_pushlstring(L, tried.data(), tried.size());
  return true;
}

// The searcher of Lua files. Upvalue: the package table.
int search_text_file(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  if (!state_data(L).files || !find_given(L, name)) lua_call(L, 2, 2);
  if (lua_isnil(L, 2)) return 1;  // the message, which names the files that were tried
  lua_pop(L, 1);
  const char* file = lua_tostring(L, 2);
  if (load_file(L, file) != LUA_OK)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, file,
                      lua_tostring(L, -1));
  lua_pushvalue(L, 2);
  return 2;
}

void wrap(lua_State* L, const char* name, lua_CFunction f) {
  lua_getglobal(L, name);
  lua_pushcclosure(L, f, 1);
  lua_setglobal(L, name);
}

}  // namespace

const char* chunk_mode(lua_State* L) { return state_data(L).options.bytecode ? "bt" : "t"; }

namespace {
// luaL_loadfilex, but in small pieces: without a byte order mark and a first line with '#'.
int load_whole_file(lua_State* L, const char* path) {
  std::string text;
  try {
    text = io::read_file(path, "load");
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    lua_pushstring(L, e.what());
    return LUA_ERRFILE;
  }
  std::string_view code = text;
  if (code.starts_with("\xEF\xBB\xBF")) code.remove_prefix(3);
  if (code.starts_with('#')) code.remove_prefix(std::min(code.find('\n'), code.size()));
  const char* const mode = is_own_script(state_data(L), path) ? "bt" : chunk_mode(L);
  return load_string(L, code, (std::string("@") + path).c_str(), mode);
}
}  // namespace

namespace {
bool is_regular_file(const char* path) {
  platform::FileInfo info;
  return platform::describe(path, info) == 0 && info.kind == platform::FileKind::kRegular;
}
}  // namespace

int load_file(lua_State* L, const char* path) {
  const bool in_pieces = path != nullptr && (io::file_system_of(path) != nullptr ||
                                             (stack_is_small() && is_regular_file(path)));
  const int status = in_pieces ? load_whole_file(L, path) : luaL_loadfilex(L, path, chunk_mode(L));
  if (status != LUA_OK) explain(L);
  return status;
}

int load_string(lua_State* L, std::string_view code, const char* name, const char* mode) {
  Source source{code};
  return lua_load(L, read_piece, &source, name, mode);
}

void restrict_chunks(lua_State* L) {
  lua_register(L, "load", l_load);
  wrap(L, "loadfile", guard<load_text_file>);
  wrap(L, "dofile", guard<do_text_file>);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, guard<search_text_file>, 1);
  lua_rawseti(L, -2, 2);  // behind that of package.preload
  lua_pop(L, 2);
}

}  // namespace moonlet
