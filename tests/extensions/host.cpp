// tests/extensions/host.cpp: loads an extension and runs a script that finds it as `extension`.
// usage: extension_host EXTENSION SCRIPT [ARGUMENT...]
#include <dlfcn.h>

#include <cstdio>

#include "interp/embed/extension/extension_loader.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "lua.hpp"

using namespace moonlet;

namespace {

const ExtensionInfo& open(const std::string& path) {
  check_extension_file(path);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail(dlerror());
  const auto* info = static_cast<const ExtensionInfo*>(dlsym(handle, kExtensionSymbol));
  if (!info) fail(path, ": ", dlerror());
  return *info;
}

// Loads the extension at 1, an ExtensionInfo, as a C function of Lua does.
int l_load(lua_State* L) {
  push_extension(L, *static_cast<const ExtensionInfo*>(lua_touserdata(L, 1)), "mylib");
  lua_setglobal(L, "extension");
  return 0;
}

// Runs code in a state that no embedding host has opened, as those of the executable are. `before`
// runs first, then the extension is loaded. Returns what `code` returns, or its error.
std::string run_in_plain_state(const ExtensionInfo& info, const std::string& before,
                               const std::string& code) {
  const StatePtr state = new_state(InterpreterOptions());
  lua_State* L = state.get();
  const EntryScope entry(state_data(L));
  const auto call = [&](int arguments, int results) {
    return lua_pcall(L, arguments, results, 0) == LUA_OK;
  };
  lua_pushcfunction(L, guard<l_load>);
  lua_pushlightuserdata(L, const_cast<ExtensionInfo*>(&info));
  const bool loaded = luaL_dostring(L, before.c_str()) == LUA_OK && call(1, 0) &&
                      luaL_loadstring(L, code.c_str()) == LUA_OK && call(0, 1);
  const std::string text = luaL_tolstring(L, -1, nullptr);
  lua_settop(L, 0);
  return loaded ? text : "error: " + text;
}

void run(int argc, char** argv) {
  Interpreter lua;
  const ExtensionInfo& info = open(argv[1]);
  lua.with_state([&](lua_State* L) {
    push_extension(L, info, argv[1]);
    lua_setglobal(L, "extension");
    lua_newtable(L);
    for (int i = 2; i < argc; ++i) {
      lua_pushstring(L, argv[i]);
      lua_rawseti(L, -2, i - 2);
    }
    lua_setglobal(L, "arg");
  });
  // What tests ask of the loader itself.
  lua.register_function("check_extension_file",
                        [](const std::string& path) { check_extension_file(path); });
  lua.register_function("in_another_interpreter", [&](const std::string& code) {
    Interpreter other;
    other.with_state([&](lua_State* L) {
      push_extension(L, info, argv[1]);
      lua_setglobal(L, "extension");
    });
    return other.run_string(code).at(0).string();
  });
  lua.register_function("in_a_plain_state",
                        [&](const std::string& before, const std::string& code) {
                          return run_in_plain_state(info, before, code);
                        });
  lua.run_file(argv[2]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    run(argc, argv);
    return 0;
  } catch (const ScriptError& e) {
    std::fprintf(stderr, "%s\n%s\n", e.what(), e.traceback().c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
