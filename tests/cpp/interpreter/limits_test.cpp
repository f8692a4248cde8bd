// tests/cpp/interpreter/limits_test.cpp: the options of an interpreter: libraries, environment,
// output, limits and interrupts.
#include "tests/cpp/catch2.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "interp/embed/moonlet.h"
#include "tests/cpp/limits.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// What scripts try to go on with.
const char* const kEndless[] = {
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() pcall(f) return f() end f()",
    "while true do coroutine.wrap(function() while true do end end)() end",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "while true do coroutine.wrap(function() local x = 1 end)() end",
    "xpcall(function() while true do end end, function() while true do end end)",
    ("local t = setmetatable({}, {__close = function() while true do end end}) "
     "while true do local _ <close> = t while true do end end"),
    "table.sort({1, 2, 3, 4}, function() while true do end end)",
    "string.gsub('x', '.', function() while true do end end)",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "debug.sethook() while true do end",
    "local ml = require 'moonlet' while true do pcall(ml.ones, 2) end",
};

}  // namespace

TEST_CASE("a limit of instructions ends each run") {
  Interpreter::Options options;
  options.instructions = 200'000;
  Interpreter lua(options);
  for (const char* code : kEndless) {
    if (contains(code, "sethook")) continue;
    check_limit(lua, Limit::Instructions, code);
  }
  CHECK(contains(message_of<std::exception>([&] { lua.run_string("debug.sethook()"); }), "limits"));
  CHECK(contains(
      message_of<std::exception>([&] { lua.run_string("setmetatable({}, {__gc = print})"); }),
      "__gc"));
  // Each run has the whole of it.
  for (int i = 0; i < 20; ++i) lua.run_string("for i = 1, 20000 do end");
  // A host function that goes in again is part of the run.
  lua.register_function("again", [](const Values& v) { return v.at(0).function()(); });
  check_limit(lua, Limit::Instructions,
              "while true do again(function() for i = 1, 9 do end end) end");
  check_limit(lua, Limit::Instructions, "again(function() while true do end end)");
  lua.register_function("swallow", [](const Values& v) -> Values {
    try {
      v.at(0).function()();
    } catch (const ScriptError&) {
    }
    return {};
  });
  check_limit(lua, Limit::Instructions,
              "while true do swallow(function() while true do end end) end");
}

TEST_CASE("a limit of time ends each run") {
  Interpreter::Options options;
  options.wall_time = 50ms;
  Interpreter lua(options);
  for (const char* code : kEndless) {
    if (contains(code, "sethook")) continue;
    check_limit(lua, Limit::WallTime, code);
  }
  check_limit(lua, Limit::WallTime, R"(
    local ml = require 'moonlet'
    local x = ml.rand(500, 500)
    while true do x:matmul(x):exp() end)");
  for (int i = 0; i < 1000; ++i) lua.run_string("x = 1");
  std::this_thread::sleep_for(100ms);  // between runs nothing passes
  CHECK(lua.run_string("return x")[0].integer() == 1);
}

TEST_CASE("a limit of Lua memory ends a run and gives the memory back") {
  Interpreter::Options options;
  options.lua_bytes = 4 * kMiB;
  Interpreter lua(options);
  for (const char* code :
       {"local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end", "return string.rep('x', 1 << 30)",
        "while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end",
        "g = {} while true do pcall(string.rep, 'x', 1 << 24) g[#g + 1] = {} end",
        "local co = coroutine.wrap(function() local t = {} while true do t[#t + 1] = {} end end) "
        "co()",
        "local t = {} for i = 1, 1e9 do t[i] = i end"}) {
    check_limit(lua, Limit::LuaBytes, code);
    lua.run_string("g = nil");
  }
  // Garbage counts only until it is collected.
  CHECK(lua.run_string("local n = 0 for i = 1, 2000 do n = n + #string.rep('x', 100000 + i) end "
                       "return n")[0]
            .integer() > 0);
}

TEST_CASE("a limit of tensor memory") {
  Interpreter::Options options;
  options.tensor_bytes = 8 * kMiB;
  Interpreter lua(options);
  lua.run_string("ml = require 'moonlet'");
  for (const char* code :
       {"ml.ones(1024, 1024, 4)", "local t = {} while true do t[#t + 1] = ml.ones(100, 100) end",
        "while true do pcall(ml.ones, 1024, 1024, 4) end",
        "local x = ml.ones(1024) x:storage():resize(1 << 22)",
        "local x = ml.ones{1024, 1024, requires_grad = true} local y = x "
        "for i = 1, 10 do y = (y * 2):exp() end"}) {
    check_limit(lua, Limit::TensorBytes, code);
    lua.run_string("collectgarbage()");
  }
  // Garbage is collected first, whether many small ones or few large ones.
  lua.run_string("for i = 1, 3000 do local x = ml.ones(1000) end");
  lua.run_string("for i = 1, 100 do local x = ml.ones(1024, 1024) end");
  // Training within it.
  lua.run_string(R"(
    local w = ml.ones{256, 256, requires_grad = true}
    for i = 1, 50 do (w * w):exp():sum():backward() w.grad = nil end)");
  // What the host holds counts, and outlives the interpreter; what it lends does not count.
  Tensor held = lua.run_string("return ml.ones(1024, 1024)")[0].tensor();
  check_limit(lua, Limit::TensorBytes, "local x, y = ml.ones(1024, 1024)  y = x + x");
  held = Tensor();
  lua.run_string("collectgarbage() local x = ml.ones(1024, 1024)");
  std::vector<float> own(3 * kMiB);
  lua.set("own", from_blob(own.data(), Dims{3, kMiB}, DType::Float32, nullptr));
  CHECK(lua.run_string("return own:sum():item()")[0].number() == 0);
  {
    Interpreter other(options);
    held = other.run_string("return require 'moonlet'.ones(1024)")[0].tensor();
  }
  CHECK(held.data<float>()[1023] == 1);
}

TEST_CASE("an interrupt from another thread ends a run") {
  Interpreter lua;
  for (const char* code : kEndless) {
    if (contains(code, "__tostring")) continue;
    INFO(code);
    std::atomic<bool> done{false};
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      while (!done) {
        lua.interrupt();
        std::this_thread::sleep_for(5ms);
      }
    });
    CHECK_THROWS_AS(lua.run_string(code), ScriptInterrupted);
    done = true;
    other.join();
    CHECK(lua.run_string("return 1")[0].integer() == 1);
  }
  lua.interrupt();  // nothing runs: nothing happens
  CHECK(lua.run_string("return 2")[0].integer() == 2);
}

TEST_CASE("interrupts from many threads at any time") {
  Interpreter lua;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        lua.interrupt();
        std::this_thread::sleep_for(100us);
      }
    });
  }
  int interrupted = 0;
  const auto end = std::chrono::steady_clock::now() + 400ms;
  while (std::chrono::steady_clock::now() < end) {
    try {
      lua.run_string(R"(
        for i = 1, 300 do
          local co = coroutine.wrap(function() coroutine.yield({}) return 1 end)
          co() pcall(co) pcall(error)
        end)");
    } catch (const ScriptInterrupted&) {
      ++interrupted;
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(interrupted > 0);
  CHECK(lua.run_string("return 1")[0].integer() == 1);
}

TEST_CASE("an interrupt reaches the interpreter that is meant") {
  Interpreter outer, inner;
  outer.register_function("enter", [&](const Values&) -> Values {
    CHECK_THROWS_AS(inner.run_string("while true do end"), ScriptInterrupted);
    return {5};
  });
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      std::this_thread::sleep_for(10ms);
      inner.interrupt();
    }
  });
  CHECK(outer.run_string("return enter()")[0].integer() == 5);
  done = true;
  other.join();
}

TEST_CASE("libraries that a host does not give") {
  Interpreter::Options options;
  options.libraries = {.io = false, .os = false, .debug = false, .package = false};
  Interpreter lua(options);
  for (const char* name : {"io", "os", "debug", "package", "dofile", "loadfile"}) {
    INFO(name);
    CHECK(lua.get(name).is_nil());
  }
  CHECK_FALSE(lua.run_string("return pcall(require, 'io')")[0].boolean());
  CHECK_FALSE(lua.run_string("return pcall(require, 'package')")[0].boolean());
  CHECK_FALSE(lua.run_string("return pcall(require, 'some_file')")[0].boolean());
  // Moonlet works, without files.
  lua.run_string("ml = require 'moonlet' net = ml.nn.Linear(2, 3) y = net(ml.ones(1, 2))");
  lua.run_string(
      "for _, m in ipairs{'optim', 'data', 'plot', 'progress', 'args'} do "
      "require('moonlet.' .. m) end");
  CHECK(lua.run_string("return ('x'):rep(3)")[0].string() == "xxx");
  for (const char* code : {"ml.save('/tmp/moonlet_no_file', {x = y})", "ml.load('/etc/hostname')",
                           "ml.Storage{file = '/etc/hostname', dtype = ml.uint8}",
                           "require 'moonlet.system'.read_file '/etc/hostname'",
                           "require 'moonlet.system'.exists '/etc/hostname'"}) {
    INFO(code);
    CHECK(
        contains(message_of<std::exception>([&] { lua.run_string(code); }), "no access to files"));
  }
  // A kernel of a script is native code.
  const std::string kernel = message_of<std::exception>(
      [&] { lua.run_string("ml.cuda.kernel('extern \"C\" __global__ void f(int n) {}', 'f')"); });
  CHECK(contains(kernel, "may not compile and load native code, as it has no library os"));
  Interpreter::Options few;
  few.libraries = {
      .coroutine = false, .table = false, .string = false, .utf8 = false, .math = false};
  Interpreter small(few);
  for (const char* name : {"coroutine", "table", "string", "utf8", "math"})
    CHECK(small.get(name).is_nil());
  CHECK(small
            .run_string("local ml = require 'moonlet' return ml.nn.Linear(2, 3)(ml.ones(1, 2))"
                        ":numel()")[0]
            .integer() == 3);
}

TEST_CASE("the environment is the host's unless it gives it") {
  setenv("LUA_PATH", "/somewhere/?.lua", 1);
  setenv("MOONLET_STDLIB", "/nowhere", 1);
  {
    Interpreter lua;
    CHECK_FALSE(contains(lua.get("package.path").string(), "somewhere"));
    CHECK(lua.run_string("return os.getenv 'LUA_PATH'")[0].is_nil());
    Interpreter::Options options;
    options.environment = true;
    Interpreter open(options);
    CHECK(contains(open.get("package.path").string(), "somewhere"));
    CHECK(open.run_string("return os.getenv 'LUA_PATH'")[0].string() == "/somewhere/?.lua");
  }
  unsetenv("LUA_PATH");
  unsetenv("MOONLET_STDLIB");
}

TEST_CASE("output goes to the host") {
  std::string out, error;
  Interpreter::Options options;
  options.output = [&](Stream stream, std::string_view text) {
    (stream == Stream::Output ? out : error).append(text);
    if (contains(std::string(text), "stop")) throw std::runtime_error("no more");
  };
  Interpreter lua(options);
  lua.run_string(R"(
    print("a", 1, nil)
    io.write("b", 2, "\n")
    io.stdout:write("c"):write("d\n")
    io.stderr:write("e\n")
    warn("@on") warn("f")
    require "moonlet.plot"
    local bar = require "moonlet.progress"
    print(io.stdout:close()))");
  CHECK(out == "a\t1\tnil\nb2\ncd\nnil\tcannot close standard file\n");
  CHECK(error == "e\nLua warning: f\n");
  CHECK_THROWS_AS(lua.run_string("print 'stop'"), std::runtime_error);
  CHECK(lua.run_string("return io.write('stop')")[0].is_nil());
  lua.run_string("last = setmetatable({}, {__gc = function() print 'bye' io.write 'bye' end})");
  lua = Interpreter();
  CHECK(contains(out, "bye\nbye"));
}
