// tests/embed/own_state.cpp: module `moonlet` in Lua states that the host made, with Lua's C API
// beside it. With the argument "refused" it expects that the Lua it got is refused. Exits with 1 on
// a failure.
#include <moonlet/lua.h>
#include <moonlet/moonlet.h>
#include <moonlet/ops.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <lua.hpp>

#include "expect.h"

namespace {

// A state of the host's own, which uses the extra space itself.
struct State {
  lua_State* L = luaL_newstate();

  explicit State(bool open = true) {
    *static_cast<void**>(lua_getextraspace(L)) = &failures;
    luaL_openlibs(L);
    if (!open) return;
    luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
    lua_setglobal(L, "ml");
  }
  ~State() {
    expect(*static_cast<void**>(lua_getextraspace(L)) == &failures,
           "the extra space is the host's");
    lua_close(L);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void run(const char* code) {
    if (luaL_dostring(L, code) != LUA_OK) expect(false, lua_tostring(L, -1));
    lua_settop(L, 0);
  }
};

// What the host's functions see of the script's grad mode.
int host_grad_mode(lua_State* L) {
  const moonlet::StateScope scope(L);
  lua_pushboolean(L, moonlet::grad_enabled());
  return 1;
}

int twice(lua_State* L) {
  const moonlet::Tensor* x = moonlet::test_tensor(L, 1);
  if (x == nullptr) return luaL_error(L, "twice: a tensor was expected");
  const moonlet::StateScope scope(L);
  moonlet::push_tensor(L, *x * 2);
  return 1;
}

void test_scripts() {
  State state;
  state.run(R"(
    local x = ml.ones(2, 3):requires_grad_()
    ;(x * x):sum():backward()
    assert(x.grad:eq(2):all():item())
    assert(require "moonlet" == ml and require "moonlet.nn".Linear)
    local net = ml.nn.Linear(3, 1)
    local adam = ml.optim.Adam(net:parameters(), {lr = 0.1})
    for _ = 1, 3 do adam:zero_grad() net(x):pow(2):sum():backward() adam:step() end
    assert(not pcall(ml.no_grad, function() error "out" end) and ml.is_grad_enabled())
    local ok, message = pcall(x.matmul, x, x)
    assert(not ok and message:find "matmul: inner sizes differ", message)
    local seen
    local h = x * 3
    h:register_hook(function(g) seen = g:sum():item() end)
    h:sum():backward()
    assert(seen == 6)
  )");
}

void test_grad_mode() {
  State state;
  lua_register(state.L, "host_grad_mode", host_grad_mode);
  state.run(R"(
    ml.set_grad_enabled(false)
    assert(not host_grad_mode())
    local co = coroutine.wrap(function() ml.set_grad_enabled(true) coroutine.yield() end)
    co()
    assert(not ml.is_grad_enabled())
  )");
  expect(moonlet::grad_enabled(), "the thread keeps its own mode");
  State other;
  other.run("assert(ml.is_grad_enabled())");
  state.run("assert(not ml.is_grad_enabled())");
}

void test_tensors_on_the_stack() {
  State state(false);
  expect(moonlet::test_tensor(state.L, 1) == nullptr, "no tensor before the module is open");
  float buffer[2] = {1, 2};
  moonlet::push_tensor(state.L, moonlet::from_blob(buffer, {2}, moonlet::DType::Float32));
  lua_setglobal(state.L, "x");
  lua_register(state.L, "twice", twice);
  state.run("x:mul_(3) y = twice(x) assert(y[2]:item() == 12) assert(not pcall(twice, {}))");
  expect(buffer[1] == 6, "the script changes the host's buffer");
  lua_getglobal(state.L, "y");
  const moonlet::Tensor* y = moonlet::test_tensor(state.L, -1);
  expect(y != nullptr && y->data<float>()[0] == 6, "a tensor of the script");
}

// The host frees its buffer when the state is closed, finalizers included.
void test_lifetime() {
  int released = 0;
  {
    float buffer[4] = {};
    State state;
    moonlet::push_tensor(
        state.L, moonlet::from_blob(buffer, {4}, moonlet::DType::Float32, [&] { ++released; }));
    lua_setglobal(state.L, "x");
    state.run(R"(
      late = setmetatable({}, {__gc = function() assert(ml.zeros(3):sum():item() == 0) end})
      ml.no_grad()
      h = x * 1
      collectgarbage())");
  }
  expect(released == 1, "tensors go with their state");
}

void test_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 3; ++round) {
        State state;
        state.run("local x = ml.randn(32, 32):requires_grad_() x:matmul(x):sum():backward()");
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// An Interpreter of this library shares its Lua with the host.
void test_interpreter() {
  moonlet::Interpreter lua;
  lua.with_state([](lua_State* L) {
    lua_register(L, "twice", twice);
    moonlet::push_tensor(L, moonlet::ones({2}));
    lua_setglobal(L, "x");
  });
  expect(lua.run_string("return twice(x)")[0].tensor().data<float>()[1] == 2, "with_state");
  State state;
  state.run("assert(ml.ones(2):sum():item() == 2)");
  expect(lua.run_string("return require 'moonlet'.is_grad_enabled()")[0].boolean(), "both at once");
}

void test_require() {
  State state(false);
  state.run("ml = require 'moonlet' assert(ml.ones(3):sum():item() == 3)");
  State bare(false);
  lua_pushnil(bare.L);
  lua_setfield(bare.L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushcfunction(bare.L, luaopen_moonlet);
  expect(lua_pcall(bare.L, 0, 1, 0) == LUA_ERRRUN, "a state without package is refused");
  expect(std::strstr(lua_tostring(bare.L, -1), "'package'") != nullptr, lua_tostring(bare.L, -1));
}

int test_refusal() {
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  lua_pushcfunction(L, luaopen_moonlet);
  const int status = lua_pcall(L, 0, 1, 0);
  const char* message = lua_tostring(L, -1);
  expect(
      status == LUA_ERRRUN && message != nullptr && std::strstr(message, "built as C++") != nullptr,
      message != nullptr ? message : "no message");
  lua_close(L);
  try {
    moonlet::Interpreter lua;
    expect(false, "an interpreter on a Lua built as C");
  } catch (const moonlet::Error& e) {
    expect(std::strstr(e.what(), "built as C++") != nullptr, e.what());
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "refused") == 0) return test_refusal();
  test_scripts();
  test_grad_mode();
  test_tensors_on_the_stack();
  test_lifetime();
  test_threads();
  test_interpreter();
  test_require();
  std::printf("moonlet in a state of the host: %s\n", failures == 0 ? "good" : "failed");
  return failures == 0 ? 0 : 1;
}
