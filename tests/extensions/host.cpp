// tests/extensions/host.cpp: loads an extension and runs a script that finds it as `extension`.
// usage: extension_host EXTENSION SCRIPT [ARGUMENT...]
#include <dlfcn.h>

#include <cstdio>

#include "interp/embed/extension_loader.h"
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
