// tests/cpp/interpreter/host_workers_test.cpp: loaders with workers in an interpreter that a host
// has limited: the limits hold for all its threads together, and its end is theirs.
#include "tests/cpp/catch2.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "autograd/ops_convert.h"
#include "autograd/ops_create.h"
#include "interp/embed/moonlet.h"
#include "tests/cpp/limits.h"
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
  std::thread other([&] {
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

namespace {

// A data set that holds much of the library, as the catalog of workers names it.
const std::string kLibrarySet =
    "local ml = require 'moonlet' local class = require 'moonlet.class' local data = ml.data "
    "local Set = class('Set', data.Dataset) function Set:size() return 8 end "
    "function Set:init() self.net = ml.nn.Sequential(ml.nn.Linear(2, 2)) "
    "self.d = ml.distributions.Normal(0, 1) self.t = data.TensorDataset(ml.ones(3, 3)) end "
    "function Set:get(i) return i end local sum = 0 "
    "for x in data.DataLoader(Set(), { num_workers = 3 }):iter() do sum = sum + x:item() end "
    "return sum";

// Runs it under limits, wherever they are passed. Returns whether it came to its end.
bool runs_within(const Interpreter::Options& options, Limit limit) {
  Interpreter lua(options);
  try {
    const Values sum = lua.run_string(kLibrarySet, "s");
    CHECK(sum[0].integer() == 36);
    return true;
  } catch (const LimitExceeded& e) {
    CHECK(e.limit() == limit);
  }
  CHECK(lua.run_string("local s = 0 for i = 1, 9 do s = s + i end return s")[0].integer() == 45);
  return false;
}

Interpreter::Options with_time() {
  Interpreter::Options options;
  options.wall_time = 60s;
  return options;
}

}  // namespace

TEST_CASE("instructions run out anywhere while workers start") {
  Interpreter::Options options;
  int ended = 0;
  // The start of a worker takes some 100,000; all of them take from one count.
  for (options.instructions = 40'000; options.instructions < 500'000;
       options.instructions += options.instructions / 12)
    ended += runs_within(options, Limit::Instructions) ? 0 : 1;
  CHECK(ended > 10);
}

TEST_CASE("Lua memory runs out anywhere while workers start") {
  Interpreter::Options options;
  int ended = 0;
  for (options.lua_bytes = kMiB; options.lua_bytes < 40 * kMiB;
       options.lua_bytes += options.lua_bytes / 10)
    ended += runs_within(options, Limit::LuaBytes) ? 0 : 1;
  CHECK(ended > 5);
}

TEST_CASE("no finalizer of a script comes into a limited interpreter through a worker") {
  Interpreter lua(with_time());
  const std::string loop =
      "for x in data.DataLoader(Set(), { num_workers = 1, batch_size = false, "
      "collate_fn = function(f) return f end }):iter() do kept[#kept + 1] = x[1] end ";
  const std::string head =
      "local ml = require 'moonlet' local data = ml.data COUNT = 0 local kept = {} "
      "local Set = require 'moonlet.class'('Set', data.Dataset) "
      "function Set:size() return 8 end function Set:init() end ";
  // Filled after setmetatable, which would refuse it.
  const Values own =
      lua.run_string(head +
                         "function Set:get(i) local mt = { __index = { name = i } } local o = "
                         "setmetatable({}, mt) "
                         "mt.__gc = function() COUNT = COUNT + 1 end return o end " +
                         loop +
                         "local names, gc = 0, type(rawget(getmetatable(kept[1]), '__gc')) "
                         "for _, o in ipairs(kept) do names = names + o.name end kept = nil "
                         "collectgarbage() collectgarbage() return COUNT, names, gc",
                     "s");
  CHECK(own[0].integer() == 0);
  CHECK(own[1].integer() == 36);
  CHECK(own[2].string() == "function");
  // The metatable crosses at the start, and its objects later.
  const Values shared = lua.run_string(
      head +
          "local mt = { __index = { name = 1 } } function Set:get(i) mt.__gc = function() "
          "COUNT = COUNT + 1 end return self.one end function Set:init() "
          "self.one = setmetatable({}, mt) mt.__gc = function() COUNT = COUNT + 1 end end " +
          loop + "kept = nil collectgarbage() collectgarbage() return COUNT",
      "s");
  CHECK(shared[0].integer() == 0);
}

TEST_CASE("loaders themselves are iterators without the library debug") {
  Interpreter::Options options;
  options.libraries.debug = false;
  Interpreter lua(options);
  CHECK(lua.run_string("local sum = 0 for b in require 'moonlet'.data.DataLoader({1, 2, 3}) do "
                       "sum = sum + b:item() end return sum, debug == nil",
                       "s")[0]
            .integer() == 6);
}

TEST_CASE("a tensor that a host gives to two interpreters keeps its shape and memory") {
  Interpreter a, b;
  const Tensor x = ones({1000}, {});
  a.set("x", x);
  // One interpreter may do what it likes.
  a.run_string("x:resize_(10, 100) x:resize_(1000)", "s");
  b.set("x", x);
  for (const char* change :
       {"x:resize_(4000)", "x:resize_(10)", "x:set_()", "x.data = require 'moonlet'.ones(3)",
        "x:storage():resize(4000)", "x:unsqueeze_(1)", "x:t_()"}) {
    INFO(change);
    for (Interpreter* lua : {&a, &b})
      CHECK(contains(message_of<std::exception>([&] { lua->run_string(change, "s"); }),
                     "shared with another interpreter"));
  }
  CHECK(x.sizes() == Dims{1000});
  // Its gradient is shared, too.
  a.run_string("x.grad = x * 2 GRAD = x.grad", "s");
  b.run_string("assert(x.grad:sum():item() == 2000)", "s");
  for (const char* change : {"GRAD:resize_(4000)", "GRAD:set_()"})
    CHECK(contains(message_of<std::exception>([&] { a.run_string(change, "s"); }),
                   "shared with another interpreter"));
  b.run_string("y = x:view(10, 100) y:resize_(100) assert(y:sum():item() == 100)", "s");
  // Both at once: an index that one changes while the other uses it.
  const Tensor at = to(ones({20000}, {}), DType::Int64, std::nullopt);
  a.set("at", at);
  b.set("at", at);
  const auto other = std::async(std::launch::async, [&] {
    a.run_string("for i = 1, 300 do at:fill_(1 << 40) at:fill_(1) end", "s");
  });
  b.run_string(
      "local z = require 'moonlet'.ones(10) for i = 1, 300 do "
      "pcall(z.index_select, z, 1, at) pcall(z.index_fill_, z, 1, at, 2) end",
      "s");
}
