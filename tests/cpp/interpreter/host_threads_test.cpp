// tests/cpp/interpreter/host_threads_test.cpp: what an interpreter sets of the thread that runs it:
// how many threads its ops use and what they do with denormal numbers is its own, on whatever
// thread, and the thread's own is back when it has run.
#include "tests/cpp/catch2.h"

#include <string>
#include <thread>

#include "interp/embed/moonlet.h"
#include "interp/embed/ops.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

const char* const kGet = "return require 'moonlet'.get_num_threads()";
int64_t threads_of(Interpreter& lua) { return lua.run_string(kGet)[0].integer(); }
void set_threads(Interpreter& lua, int count) {
  lua.run_string("require 'moonlet'.set_num_threads(" + std::to_string(count) + ")");
}

template <class F>
void on_another_thread(F f) {
  std::thread(f).join();
}

// The smallest positive float that is no denormal, halved, by this thread and by those of a loop.
constexpr float kSmallest = 1.17549435e-38F;
bool flushes_here() {
  volatile float x = kSmallest;
  return x * 0.5F == 0.0F;
}
const char* const kFlushes =
    "local ml = require 'moonlet' "
    "local small = ml.full({4 << 20}, 1.17549435e-38) * 0.5 return small:count_nonzero():item()";

}  // namespace

TEST_CASE("the number of threads belongs to an interpreter") {
  const int own = num_threads();
  Interpreter lua;
  CHECK(threads_of(lua) == own);
  set_threads(lua, own + 2);
  CHECK(num_threads() == own);
  CHECK(threads_of(lua) == own + 2);
  CHECK(lua.num_threads() == own + 2);
  Interpreter other;
  CHECK(threads_of(other) == own);
  on_another_thread([&] {
    const int there = num_threads();
    CHECK(threads_of(lua) == own + 2);
    set_threads(lua, 1);
    CHECK(num_threads() == there);
  });
  CHECK(threads_of(lua) == 1);
  CHECK(threads_of(other) == own);
  lua = Interpreter();
  CHECK(num_threads() == own);
  CHECK(threads_of(lua) == own);
}

TEST_CASE("a host chooses the number of threads") {
  Interpreter::Options options;
  options.threads = 3;
  Interpreter lua(options);
  CHECK(threads_of(lua) == 3);
  lua.set_num_threads(2);
  CHECK(lua.num_threads() == 2);
  on_another_thread([&] { CHECK(threads_of(lua) == 2); });
  CHECK_THROWS_WITH(lua.set_num_threads(0), Contains("from 1 to 1024"));
  CHECK_THROWS_WITH(lua.set_num_threads(1025), Contains("from 1 to 1024"));
  CHECK(lua.num_threads() == 2);
  options.threads = -1;
  CHECK_THROWS_WITH(Interpreter(options), Contains("threads"));
  // Workers have one each, whatever the option says.
  lua.set("expected", 1);
  const auto seen = lua.run_string(R"(
    local ml = require 'moonlet' local class = require 'moonlet.class'
    local Set = class('Set', ml.data.Dataset)
    function Set:init() end
    function Set:size() return 2 end
    function Set:get() return require 'moonlet'.get_num_threads() end
    local most = 0
    for x in ml.data.DataLoader(Set(), { num_workers = 1 }):iter() do most = math.max(most, x:item()) end
    return most)");
  CHECK(seen[0].integer() == 1);
}

TEST_CASE("calls between host and script see the number of the interpreter that runs") {
  const int own = num_threads();
  Interpreter outer, inner;
  set_threads(outer, 5);
  set_threads(inner, 6);
  outer.register_function("go", [&](const Values&) -> Values {
    CHECK(num_threads() == 5);
    CHECK(threads_of(inner) == 6);
    CHECK(num_threads() == 5);
    CHECK(outer.num_threads() == 5);
    outer.set_num_threads(7);  // while it runs
    CHECK(num_threads() == 7);
    inner.set_num_threads(8);
    return {threads_of(inner)};
  });
  // From inside another one's call it can be reached too.
  inner.register_function("back", [&](const Values&) -> Values {
    outer.set_num_threads(4);
    CHECK(num_threads() == 8);
    return {threads_of(outer)};
  });
  CHECK(outer.run_string("return go()")[0].integer() == 8);
  CHECK(threads_of(outer) == 7);
  outer.register_function(
      "through", [&](const Values&) -> Values { return inner.run_string("return back()"); });
  CHECK(outer.run_string("return through()")[0].integer() == 4);
  CHECK(threads_of(outer) == 4);
  CHECK(num_threads() == own);
  // An error leaves no trace either.
  CHECK_THROWS(outer.run_string("require 'moonlet'.set_num_threads(2) error 'x'"));
  CHECK(num_threads() == own);
  CHECK(threads_of(outer) == 2);
}

TEST_CASE("the number of threads of code without an interpreter is its thread's") {
  const int own = num_threads();
  on_another_thread([&] {
    set_num_threads(own + 1);
    CHECK(num_threads() == own + 1);
    Interpreter made_here;
    CHECK(threads_of(made_here) == own + 1);
  });
  CHECK(num_threads() == own);
  CHECK_THROWS_WITH(set_num_threads(0), Contains("set_num_threads"));
}

#if defined(__x86_64__)
TEST_CASE("flushing denormal numbers ends with the run") {
  REQUIRE_FALSE(flushes_here());
  Interpreter lua, other;
  for (Interpreter* each : {&lua, &other}) set_threads(*each, 2);
  lua.run_string("require 'moonlet'.set_flush_denormal(true)");
  CHECK_FALSE(flushes_here());
  CHECK(lua.run_string(kFlushes)[0].integer() == 0);
  CHECK_FALSE(flushes_here());
  CHECK(other.run_string(kFlushes)[0].integer() == 4 << 20);
  on_another_thread([&] {
    CHECK(lua.run_string(kFlushes)[0].integer() == 0);
    CHECK_FALSE(flushes_here());
  });
  // A thread of the host that flushes does so again after it.
  on_another_thread([&] {
    set_flush_denormal(true);
    CHECK(other.run_string(kFlushes)[0].integer() == 4 << 20);
    CHECK(flushes_here());
  });
  CHECK_THROWS(lua.run_string("error 'x'"));
  CHECK_FALSE(flushes_here());
  lua.run_string("require 'moonlet'.set_flush_denormal(false)");
  CHECK(lua.run_string(kFlushes)[0].integer() == 4 << 20);
  {
    Interpreter gone;
    gone.run_string("require 'moonlet'.set_flush_denormal(true)");
  }
  CHECK_FALSE(flushes_here());
}
#endif
