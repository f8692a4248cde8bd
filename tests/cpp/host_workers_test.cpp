// tests/cpp/host_workers_test.cpp: loaders with workers in an interpreter that a host has limited:
// the limits hold for all its threads together, and its end is theirs.
#include "tests/cpp/catch2.h"

#include <chrono>
#include <string>
#include <thread>

#include "interp/moonlet.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A loader of 8 examples with two workers, whose `get` is the code.
std::string loader(const std::string& code) {
  return "local ml = require 'moonlet' local class = require 'moonlet.class' local data = ml.data "
         "local Set = class('Set', data.Dataset) function Set:init() end "
         "function Set:size() return 8 end function Set:get(i) do " +
         code +
         " end return i end "
         "local sum, loader = 0, data.DataLoader(Set(), { num_workers = 2 }) "
         "for x in loader:iter() do sum = sum + x:item() end return sum";
}

const std::string kEndless = "while true do pcall(function() while true do end end) end";

void check_limit(Interpreter& lua, Limit limit, const std::string& code) {
  INFO(code);
  try {
    lua.run_string(code, "s");
    FAIL("no limit was passed");
  } catch (const LimitExceeded& e) {
    CHECK(e.limit() == limit);
  }
  CHECK(lua.run_string("local s = 0 for i = 1, 9 do s = s + i end return s")[0].integer() == 45);
}

}  // namespace

TEST_CASE("workers run in an interpreter of a host, and print through it") {
  Interpreter::Options options;
  std::string printed;
  options.output = [&](Stream, std::string_view text) { printed += text; };
  Interpreter lua(options);
  CHECK(lua.run_string(loader("print('at', i)"), "s")[0].integer() == 36);
  for (int i = 1; i <= 8; ++i)
    CHECK(printed.find("at\t" + std::to_string(i) + "\n") != printed.npos);
}

TEST_CASE("workers of an interpreter without libraries") {
  Interpreter::Options options;
  options.libraries = {.coroutine = false,
                       .table = false,
                       .io = false,
                       .os = false,
                       .debug = false,
                       .package = false};
  Interpreter lua(options);
  CHECK(lua.run_string(loader("assert(not io and not os and not debug)"), "s")[0].integer() == 36);
}

TEST_CASE("the limit of instructions holds for workers") {
  Interpreter::Options options;
  options.instructions = 3'000'000;
  Interpreter lua(options);
  CHECK(lua.run_string(loader(""), "s")[0].integer() == 36);
  check_limit(lua, Limit::Instructions, loader(kEndless));
}

TEST_CASE("the limit of time holds for workers") {
  Interpreter::Options options;
  options.wall_time = 3s;
  Interpreter lua(options);
  check_limit(lua, Limit::WallTime, loader(kEndless));
}

TEST_CASE("the limit of tensor memory holds for workers together") {
  Interpreter::Options options;
  options.tensor_bytes = 16 * kMiB;
  Interpreter lua(options);
  check_limit(lua, Limit::TensorBytes,
              loader("self.kept = self.kept or {} self.kept[i] = ml.zeros(1 << 20)"));
}

TEST_CASE("the limit of Lua memory holds for workers together") {
  Interpreter::Options options;
  options.lua_bytes = 64 * kMiB;
  Interpreter lua(options);
  CHECK(lua.run_string(loader(""), "s")[0].integer() == 36);
  check_limit(lua, Limit::LuaBytes,
              loader("local t = {} for j = 1, 1 << 18 do t[j] = {} end KEPT = { KEPT, t }"));
}

TEST_CASE("an interrupt reaches a script that waits for workers") {
  Interpreter lua;
  std::jthread other([&] {
    std::this_thread::sleep_for(1s);
    lua.interrupt();
  });
  CHECK_THROWS_AS(lua.run_string(loader(kEndless), "s"), ScriptInterrupted);
  other.join();
  CHECK(lua.run_string(loader(""), "s")[0].integer() == 36);
}

TEST_CASE("an interpreter is closed while workers run") {
  for (int i = 0; i < 3; ++i) {
    Interpreter lua;
    lua.run_string(
        "ml = require 'moonlet' STEP = ml.data.DataLoader({ 1, 2, 3 }, { num_workers = 2, "
        "collate_fn = function() while true do end end }):iter()",
        "s");
  }
  SUCCEED();
}
