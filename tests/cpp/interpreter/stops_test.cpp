// tests/cpp/interpreter/stops_test.cpp: what ends a run where nothing helps: threads that block
// signals, library functions that run without end, and recursion on small stacks.
#include "tests/cpp/catch2.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "interp/embed/moonlet.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

// Runs `body` on a thread with a stack of so many KiB, as good as it can be made, to its end.
void run_on_stack(size_t kib, std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, kib << 10) == 0);
  pthread_t thread{};
  const auto start = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, &body) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// While alive, this thread blocks all signals.
class AllBlocked {
 public:
  AllBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~AllBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllBlocked(const AllBlocked&) = delete;
  AllBlocked& operator=(const AllBlocked&) = delete;

  static bool holds() {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    return sigismember(&now, SIGURG) == 1 && sigismember(&now, SIGTERM) == 1;
  }

 private:
  sigset_t before_{};
};

// Lua code that calls nothing, catches everything, or runs elsewhere.
const char* const kLoops[] = {
    "while true do end",
    "for i = 1, math.huge do end",
    "repeat until false",
    "while true do pcall(function() while true do end end) end",
    "local function loop() while true do end end while true do pcall(coroutine.wrap(loop)) end",
    ("local co = coroutine.create(function() while true do end end) coroutine.resume(co) while "
     "true "
     "do end"),
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "table.sort({1, 2, 3}, function() while true do end end)",
    "again(function() while true do end end)",
    "while true do again(function() pcall(again, function() while true do end end) end) end",
    "string.find(('a'):rep(400), '.-.-.-b')",
};

Interpreter with_again(const Interpreter::Options& options) {
  Interpreter lua(options);
  lua.register_function("again", [](const Values& v) { return v.at(0).function()(); });
  return lua;
}

}  // namespace

TEST_CASE("a limit of time reaches a thread that blocks all signals") {
  const AllBlocked blocked;
  Interpreter::Options options;
  options.wall_time = 50ms;
  Interpreter lua = with_again(options);
  for (const char* code : kLoops) {
    INFO(code);
    CHECK_THROWS_AS(lua.run_string(code), LimitExceeded);
    CHECK(AllBlocked::holds());
  }
  CHECK(lua.run_string("return 6 * 7")[0].integer() == 42);
}

TEST_CASE("an interrupt reaches a thread that blocks all signals") {
  std::atomic<Interpreter*> running{nullptr};
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      std::this_thread::sleep_for(30ms);
      if (Interpreter* lua = running.exchange(nullptr)) lua->interrupt();
    }
  });
  {
    const AllBlocked blocked;
    Interpreter lua = with_again({});
    lua.register_function("ready", [&](const Values&) -> Values {
      running = &lua;
      return {};
    });
    const auto held =
        lua.run_string("return function() ready() while true do end end")[0].function();
    CHECK_THROWS_AS(held(), ScriptInterrupted);
    for (const char* code : kLoops) {
      INFO(code);
      CHECK_THROWS_AS(lua.run_string(std::string("ready() ") + code), ScriptInterrupted);
      CHECK(AllBlocked::holds());
    }
    // A run that ends by itself.
    lua.run_string("return 1");
    CHECK(AllBlocked::holds());
  }
  done = true;
  other.join();
}

TEST_CASE("workers of a loader that a thread makes which blocks all signals are stopped") {
  const AllBlocked blocked;
  Interpreter::Options options;
  options.wall_time = 300ms;
  Interpreter lua(options);
  CHECK_THROWS_AS(lua.run_string(R"(
    local ml = require 'moonlet'
    local Set = require('moonlet.class')('Set', ml.data.Dataset)
    function Set:init() end
    function Set:size() return 8 end
    function Set:get() while true do end end
    for x in ml.data.DataLoader(Set(), {num_workers = 2}):iter() do end)"),
                  LimitExceeded);
}

TEST_CASE("library functions that run long meet a limit of time") {
  Interpreter::Options options;
  options.wall_time = 50ms;
  options.lua_bytes = int64_t{64} << 20;
  Interpreter lua(options);
  // Some of these would end within hours, most not within years.
  const char* const kCalls[] = {
      "string.find(('a'):rep(5000), '.-.-.-b')",
      "string.match(('a'):rep(60), ('a?'):rep(60) .. ('a'):rep(61))",
      "for _ in string.gmatch(('a'):rep(100000), '.-.-b') do end",
      "string.gsub(('a'):rep(3000000), '.-b', '')",
      "string.gsub(('a'):rep(1000000), 'a-b', {})",
      "string.find(('('):rep(3000000), '%b()x')",
      "string.find(('ab'):rep(30000), '(.-)(.-)%1%2$c')",
      "string.find(('a'):rep(3000000), '[^b]*b')",
      "pcall(string.find, ('a'):rep(5000), '.-.-.-b') while true do end",
      "coroutine.wrap(string.find)(('a'):rep(5000), '.-.-.-b')",
      "table.concat(setmetatable({}, {__len = function() return 1 << 60 end, __index = rawlen}), "
      "'', 1, 1 << 60)",
      "table.concat(setmetatable({}, {__index = rawlen}), '', -(1 << 60), 0)",
      "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 'x')",
      "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
      "table.move({}, 1, 1 << 60, 2)",
      "table.move({}, 1, 1 << 60, 1, setmetatable({}, {__newindex = rawequal}))",
      "table.sort(setmetatable({}, {__len = function() return (1 << 31) - 2 end}), rawequal)",
      "local t = {} for i = 1, 2000000 do t[i] = i * 7919 % 2000003 end table.sort(t)",
      "local t = {'return '} for i = 1, 200000 do t[i + 1] = ' ::l' .. i .. '::' end "
      "load(table.concat(t))",
      "load('if a then ' .. ('elseif a then '):rep(200000) .. 'end') while true do end",
  };
  for (const char* code : kCalls) {
    INFO(code);
    try {
      lua.run_string(code, "s");
      FAIL("it ended");
    } catch (const LimitExceeded& e) {
      const bool stopped = e.limit() == Limit::WallTime || e.limit() == Limit::LuaBytes;
      CHECK(stopped);
    }
  }
  CHECK(lua.run_string("return ('').rep('', 1 << 60) .. ('x'):rep(3, ',')")[0].string() == "x,x,x");
}

namespace {

// Recursion without end, through Lua, through C and through both.
const char* const kRecursions[] = {
    "local function f() return 1 + f() end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end "
    "return t[1]",
    "local function f() return pcall(f) end f()",
    "local function f() return (('x'):gsub('x', f)) end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return "
    "('%s'):format(t) end tostring(t)",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t) return table.concat(t, "
    "'', 1, 2) end return t[1]",
    "local function f(a, b) table.sort({3, 2, 1}, f) return a < b end table.sort({3, 2, 1}, f)",
    "local function f() return coroutine.wrap(f)() end f()",
    "local function f() return load(f) end f()",
    "local function f() return xpcall(f, f) end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__close = function() local _ <close> = t end "
    "local _ <close> = t",
    "local t = setmetatable({}, {}) getmetatable(t).__concat = function() return t .. t end return "
    "t .. t",
    "package.preload.a = function() package.loaded.a = nil return require 'a' end require 'a'",
    "local function f() host(f) end f()",
    "local function f() coroutine.wrap(host)(f) end f()",
    "host(host)",
    "string.find(('x'):rep(1000), ('(.-)'):rep(30) .. ('.-'):rep(160) .. 'y')",
    "load('return ' .. ('{'):rep(190) .. ('}'):rep(190))",
    "load(('return function() '):rep(150) .. (' end'):rep(150))",
};

}  // namespace

TEST_CASE("recursion without end is an error on threads with small stacks, too") {
  for (const size_t kib : {128, 256, 512, 1024, 8192}) {
    for (const char* code : kRecursions) {
      INFO(kib << " KiB: " << code);
      std::string said, after;
      run_on_stack(kib, [&] {
        Interpreter lua;
        lua.register_function(
            "host", [](const Values& a) -> Values { return a.at(0).function()(a.at(0)); });
        try {
          lua.run_string(code, "s");
        } catch (const std::exception& e) {
          said = e.what();
        }
        after = lua.run_string("return ('x'):gsub('x', 'fine')")[0].string();
      });
      CHECK(after == "fine");
      const bool right =
          said.empty() || contains(said, "overflow") || contains(said, "pattern too complex") ||
          contains(said, "error in error handling") || contains(said, "nested calls");
      CHECK((right ? "" : said) == "");
    }
  }
}
