// tests/embed/beside_lua.cpp: an interpreter in a process that also holds the ordinary, C-built
// Lua: errors of scripts run C++ destructors, and neither Lua sees the other. Built as a program
// that links both, and as a plug-in that plugin_host.c opens. Prints what is wrong; exits with 1
// then.
#include <moonlet/moonlet.h>
#include <cstdio>
#include <string>

#include "expect.h"

#ifdef WITH_LUA
#include <lua.hpp>
#endif

namespace {

struct Witness {
  int& count;
  ~Witness() { ++count; }
};

void test_destructors() {
  moonlet::Interpreter lua;
  const auto results = lua.run_string(R"(
    ml = require "moonlet"
    local ok, message = pcall(ml.no_grad, function() error "in no_grad" end)
    local again, text = pcall(function() return ml.ones(2, 3):matmul(ml.ones(4, 5)) end)
    local co = coroutine.wrap(function() error "in a coroutine" end)
    return ok, message, ml.is_grad_enabled(), again, text, pcall(co))");
  expect(!results[0].boolean(), "an error is caught");
  expect(results[2].boolean(), "no_grad ends with the error");
  expect(results[4].string().find("matmul") != std::string::npos, "an op's error");
  expect(!results[5].boolean(), "an error in a coroutine");

  int destroyed = 0;
  lua.register_function("fail", [&](const moonlet::Values& arguments) -> moonlet::Values {
    const Witness witness{destroyed};
    return arguments.at(0).function()();
  });
  lua.run_string("pcall(fail, error) pcall(fail, function() local x = nil + 1 end)");
  expect(destroyed == 2, "destructors of a host function run");
}

void test_c_modules() {
  moonlet::Interpreter lua;
  const auto results = lua.run_string(R"(
    package.cpath = os.getenv "TINY_MODULE" or "?.so"
    local ok, message = pcall(require, "tiny")
    local loaded, why = package.loadlib(package.cpath, "luaopen_tiny")
    return ok, message, loaded, why)");
  expect(!results[0].boolean() && results[1].string().find("another Lua") != std::string::npos,
         "require says why C modules are refused");
  expect(results[2].is_nil() && results[3].string().find("another Lua") != std::string::npos,
         "loadlib too");
}

}  // namespace

extern "C" int test_beside_lua() {
  try {
#ifdef WITH_LUA
    lua_State* L = luaL_newstate();
    luaL_openlibs(L);
    expect(luaL_dostring(L, "return require == nil") == LUA_OK, "the other Lua");
#endif
    test_destructors();
    test_c_modules();
#ifdef WITH_LUA
    expect(luaL_dostring(L, "return pcall(error, 'x')") == LUA_OK, "the other Lua still runs");
    lua_close(L);
#endif
  } catch (const std::exception& e) {
    std::printf("FAILED beside another Lua: %s\n", e.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

#ifndef PLUGIN
int main() { return test_beside_lua(); }
#endif
