// tests/cpp/interpreter/real_time_test.cpp: interpreters of hosts with little time: deadlines of
// single calls, limits that change, one thread for all deadlines, and collection when the host says
// so.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lua.hpp"

#include "interp/embed/moonlet.h"
#include "interp/state/gc_pacer.h"
#include "tensor/core/storage.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

template <class F>
Limit limit_of(F&& run) {
  try {
    run();
  } catch (const LimitExceeded& e) {
    return e.limit();
  }
  FAIL("no limit was passed");
  return {};
}

size_t count_threads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("a call may have a deadline of its own") {
  Interpreter lua;
  lua.run_string("function forever() while true do end end  function sum(a, b) return a + b end");
  CHECK(limit_of([&] { lua.call_within(2ms, "forever"); }) == Limit::WallTime);
  CHECK(lua.call_within(1h, "sum", 1, 2)[0].integer() == 3);
  const Function forever = lua.get("forever").function();
  CHECK(limit_of([&] { lua.call_within(200ms, forever); }) == Limit::WallTime);
  CHECK(lua.call("sum", 2, 2)[0].integer() == 4);
  // It ends with the call.
  lua.call_within(5ms, "sum", 1, 2);
  lua.run_string("local t = os.clock() while os.clock() < t + 0.02 do end");
  CHECK(contains(message_of<Error>([&] { lua.call_within(0ns, "sum", 1, 2); }), "above 0, got 0"));
  CHECK_THROWS_AS(lua.call_within(1s, "nothing"), Error);
}

TEST_CASE("the shorter of two deadlines holds") {
  Interpreter::Options options;
  options.wall_time = 30s;
  Interpreter lua(options);
  lua.run_string("function forever() while true do end end");
  CHECK(limit_of([&] { lua.call_within(5ms, "forever"); }) == Limit::WallTime);
  lua.set_limits({.wall_time = 5ms});
  CHECK(limit_of([&] { lua.call_within(1h, "forever"); }) == Limit::WallTime);
}

TEST_CASE("a deadline inside a run ends the run, and otherwise leaves its own") {
  Interpreter lua;
  lua.run_string("function forever() while true do end end  function one() return 1 end");
  lua.register_function("within", [&](const Values& v) {
    return lua.call_within(std::chrono::milliseconds(v.at(0).integer()), v.at(1).function());
  });
  CHECK(limit_of([&] { lua.run_string("pcall(within, 2, forever) while true do end"); }) ==
        Limit::WallTime);
  CHECK(lua.run_string("local x = within(1000, one) local t = os.clock() "
                       "while os.clock() < t + 0.02 do end return x")[0]
            .integer() == 1);
  CHECK(limit_of([&] {
          lua.call_within(20ms, lua.run_string("return function() within(10000, one) "
                                               "while true do end end")[0]
                                    .function());
        }) == Limit::WallTime);
}

TEST_CASE("an interpreter may end inside a call with a deadline") {
  auto lua = std::make_unique<Interpreter>();
  lua->register_function("leave", [&](const Values&) -> Values {
    lua.reset();
    return {};
  });
  const Function leave = lua->run_string("return function() leave() end")[0].function();
  CHECK_THROWS_AS(lua->call_within(1s, leave), Error);
  CHECK(lua == nullptr);
}

TEST_CASE("limits can be others for the next run") {
  Interpreter lua;
  CHECK(lua.limits().instructions == 0);
  // A coroutine that is older than the limit is counted, too.
  lua.run_string("co = coroutine.wrap(function() coroutine.yield() while true do end end) co()");
  lua.set_limits({.instructions = 10'000});
  CHECK(lua.limits().instructions == 10'000);
  CHECK(limit_of([&] { lua.run_string("while true do end"); }) == Limit::Instructions);
  CHECK(limit_of([&] { lua.run_string("co()"); }) == Limit::Instructions);
  lua.set_limits({.lua_bytes = 4 << 20});
  lua.run_string("for i = 1, 1e5 do end");
  CHECK(limit_of([&] { lua.run_string("return string.rep('x', 1 << 30)"); }) == Limit::LuaBytes);
  lua.set_limits({.wall_time = 5ms});
  CHECK(limit_of([&] { lua.run_string("while true do end"); }) == Limit::WallTime);
  lua.set_limits({});
  lua.run_string("local t = os.clock() while os.clock() < t + 0.02 do end");
  CHECK(
      contains(message_of<Error>([&] { lua.set_limits({.tensor_bytes = 1}); }), "from the start"));
  CHECK(contains(message_of<Error>([&] { lua.set_limits({.instructions = -1}); }), "negative"));
  lua.register_function("change", [&](const Values&) -> Values {
    lua.set_limits({});
    return {};
  });
  CHECK(contains(message_of<Error>([&] { lua.run_string("change()"); }), "under way"));
}

TEST_CASE("a limit of tensor memory can be another one") {
  Interpreter::Options options;
  options.tensor_bytes = 64 << 20;
  Interpreter lua(options);
  lua.run_string("ml = require 'moonlet' x = ml.ones(1 << 20)");
  lua.set_limits({.tensor_bytes = 8 << 20});
  CHECK(limit_of([&] { lua.run_string("return ml.ones(1 << 21)"); }) == Limit::TensorBytes);
  lua.set_limits({.tensor_bytes = 32 << 20});
  lua.run_string("y = ml.ones(1 << 21)");
}

TEST_CASE("one thread watches all deadlines of a process") {
  const size_t before = count_threads();
  std::vector<std::unique_ptr<Interpreter>> all;
  for (int i = 0; i < 20; ++i) {
    Interpreter::Options options;
    options.wall_time = std::chrono::milliseconds(5 + 50 * (i % 3));
    all.push_back(std::make_unique<Interpreter>(options));
    all.back()->run_string("x = 1");
  }
  CHECK(count_threads() == before + 1);
  for (auto& each : all)
    CHECK(limit_of([&] { each->run_string("while true do end"); }) == Limit::WallTime);
  all.clear();
  CHECK(count_threads() == before);
}

TEST_CASE("deadlines on several threads are kept apart") {
  std::vector<std::thread> threads;
  std::atomic<int> ended{0}, other{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Interpreter lua;
      lua.run_string("function forever() while true do end end  function one() return 1 end");
      for (int i = 0; i < 30; ++i) {
        try {
          lua.call_within(std::chrono::microseconds(50 + 300 * t), i % 2 == 0 ? "forever" : "one");
          other += i % 2 == 0 ? 1 : 0;
        } catch (const LimitExceeded&) {
          ended += i % 2 == 0 ? 1 : 0;  // a slow machine may end the other one, too
        }
        other += lua.call("one")[0].integer() == 1 ? 0 : 1;
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(ended == 60);
  CHECK(other == 0);
}

TEST_CASE("a host collects garbage when it has time") {
  Interpreter::Options options;
  options.collector = Collector::Manual;
  Interpreter lua(options);
  lua.run_string(
      "function work(n) for i = 1, n do local t = {i} end return collectgarbage 'count' end");
  const double start = lua.call("work", 1)[0].number();
  const double grown = lua.call("work", 200'000)[0].number();
  CHECK(grown > start + 5'000);  // KiB: nothing was collected
  int calls = 0;
  while (!lua.collect_for(50us) && calls < 1'000'000) ++calls;
  CHECK(calls < 1'000'000);
  CHECK(lua.call("work", 1)[0].number() < start + 500);
  CHECK(lua.call("work", 200'000)[0].number() > start + 5'000);
  lua.collect();
  CHECK(lua.call("work", 1)[0].number() < start + 500);
  CHECK(contains(message_of<ScriptError>([&] { lua.run_string("collectgarbage 'restart'"); }),
                 "host"));
  CHECK(contains(message_of<ScriptError>([&] { lua.run_string("collectgarbage 'generational'"); }),
                 "host"));
  lua.run_string("collectgarbage() collectgarbage 'step'");
  CHECK(contains(message_of<Error>([&] { lua.collect_for(0us); }), "above 0"));
}

TEST_CASE("a step of the collector frees some hundred objects") {
  Interpreter::Options options;
  options.collector = Collector::Manual;
  Interpreter lua(options);
  const char* const kinds[] = {"{i}", "function() return i end", "('x'):rep(50)",
                               "setmetatable({}, weak)"};
  for (const char* kind : kinds) {
    lua.run_string(std::string("weak = {__mode = 'k'} local f = function(i) return ") + kind +
                   " end  for i = 1, 100000 do f(i) end");
    lua.with_state([](lua_State* L) {
      const auto bytes = [&] {
        return 1024 * int64_t{lua_gc(L, LUA_GCCOUNT)} + lua_gc(L, LUA_GCCOUNTB);
      };
      const int64_t start = bytes();
      int64_t most = 0, steps = 0;
      for (bool done = false; !done; ++steps) {
        const int64_t before = bytes();
        done = gc::collect_for(L, 0ns);
        most = std::max(most, before - bytes());
      }
      CHECK(start - bytes() > 3'000'000);
      CHECK(most < 20'000);
      CHECK(steps > 900);
    });
  }
}

TEST_CASE("a collector in short steps keeps up with what makes garbage") {
  const char* const ways[] = {
      "for i = 1, 1000000 do local t = {i} if i % 1000 == 0 then look() end end",
      "for i = 1, 100 do local s = ('x'):rep(1 << 20) look() end",
      "for i = 1, 200 do local t = {} for k = 1, 10000 do t[k] = k end look() end",
      "local f = coroutine.wrap(function() while true do coroutine.yield({}) end end) "
      "for i = 1, 1000000 do f() if i % 1000 == 0 then look() end end",
      // No hook interrupts it, as it has its own.
      "debug.sethook(function() end, '', 1000000) "
      "for i = 1, 1000000 do local t = {i} if i % 1000 == 0 then look() end end debug.sethook()",
  };
  for (const auto pause : {10us, 100us}) {
    Interpreter::Options options;
    options.collector = Collector::Bounded;
    options.collector_pause = pause;
    Interpreter lua(options);
    double most = 0;
    const auto look = [&] {
      most = std::max(most, lua.run_string("return collectgarbage 'count'")[0].number());
    };
    lua.register_function("look", [&](const Values&) -> Values {
      look();
      return {};
    });
    lua.run_string("keep = {} for i = 1, 100000 do keep[i] = {i} end");
    for (const char* way : ways) {
      lua.collect();
      most = 0;
      const double held = lua.run_string("return collectgarbage 'count'")[0].number();
      lua.run_string(way);
      CHECK(most > held);
      CHECK(most < 4 * held);
    }
    // Code of the host, which runs no instruction of Lua.
    most = 0;
    for (int i = 0; i < 1'000'000; ++i) lua.new_table();
    look();
    CHECK(most < 40'000);
    CHECK(lua.run_string("return #keep")[0].integer() == 100'000);
  }
}

TEST_CASE("scripts may stop a collector in short steps") {
  Interpreter::Options options;
  options.collector = Collector::Bounded;
  Interpreter lua(options);
  lua.run_string(R"(
    local function make() for i = 1, 300000 do local t = {i} end return collectgarbage 'count' end
    assert(collectgarbage 'isrunning')
    assert(make() < 6000)
    assert(collectgarbage 'stop' == 0 and not collectgarbage 'isrunning')
    assert(make() > 15000)
    assert(collectgarbage 'restart' == 0 and collectgarbage 'isrunning')
    make()
    assert(make() < 20000)
    collectgarbage()
    assert(make() < 6000))");
}

// The end of a cycle visits all of them at once.
TEST_CASE("dead tensors do not add up where steps are short") {
  Interpreter::Options options;
  options.collector = Collector::Bounded;
  Interpreter lua(options);
  lua.run_string("ml = require 'moonlet' keep = {} for i = 1, 50000 do keep[i] = {i} end");
  lua.collect();
  const int64_t before = live_bytes();
  lua.run_string("x = ml.ones(1)  function add(n) for i = 1, n do local y = x + 1 end end");
  int64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    lua.call("add", 100);
    most = std::max(most, live_bytes() - before);
  }
  CHECK(most > 64);
  CHECK(most < 64 * 8'000);  // of 30,000 tensors, some 64 bytes each
}

TEST_CASE("a limit of instructions and a collector in short steps know of each other") {
  Interpreter::Options options;
  options.collector = Collector::Bounded;
  options.instructions = 100'000'000;
  Interpreter lua(options);
  lua.run_string(R"(
    local most = 0
    for i = 1, 300000 do
      local t = {i}
      if i % 1000 == 0 then most = math.max(most, collectgarbage 'count') end
    end
    assert(most < 6000, most))");
}

TEST_CASE("instructions are counted while a collector works in short steps") {
  Interpreter::Options options;
  options.collector = Collector::Bounded;
  options.instructions = 50'000;
  Interpreter lua(options);
  CHECK(limit_of([&] { lua.run_string("while true do local s = ('x'):rep(1 << 15) end"); }) ==
        Limit::Instructions);
}

TEST_CASE("dead tensors are found in short steps") {
  Interpreter::Options options;
  options.collector = Collector::Bounded;
  Interpreter lua(options);
  int64_t most = 0;
  const int64_t before = live_bytes();
  lua.register_function("look", [&](const Values&) -> Values {
    most = std::max(most, live_bytes() - before);
    return {};
  });
  // 40 GiB in all, were they kept.
  lua.run_string(R"(
    local ml = require 'moonlet'
    keep = {}
    for i = 1, 20000 do keep[i] = {i} end
    for i = 1, 10000 do
      local x = ml.empty(1 << 20)
      if i % 10 == 0 then look() end
    end)");
  CHECK(most > 0);
  CHECK(most < int64_t{2} << 30);
  CHECK(lua.run_string("return #keep")[0].integer() == 20'000);
  CHECK(contains(
      message_of<ScriptError>([&] { lua.run_string("collectgarbage('setpause', 100)"); }), "host"));
  lua.run_string("collectgarbage 'stop' collectgarbage 'restart'");
}
