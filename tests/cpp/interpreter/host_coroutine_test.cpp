// tests/cpp/interpreter/host_coroutine_test.cpp: coroutines that the host resumes: generators,
// functions of the host that yield, futures that scripts wait for.
#include "tests/cpp/catch2.h"

#include <future>
#include <memory>
#include <thread>

#include "interp/embed/coroutine.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

TEST_CASE("the host resumes coroutines of scripts") {
  Interpreter lua;
  lua.run_string(R"(
    function count(to)
      local sum = 0
      for i = 1, to do sum = sum + coroutine.yield(i, i * i) end
      return sum
    end)");
  const Coroutine co(lua.get("count").function());
  CHECK(co.status() == Coroutine::Status::Suspended);
  Values values = co.resume(2);
  CHECK((values.size() == 2 && values[0].integer() == 1));
  values = co.resume(10);
  CHECK(values[1].integer() == 4);
  values = co.resume(20);
  CHECK((values.size() == 1 && values[0].integer() == 30));
  CHECK(co.done());
  CHECK(message_of([&] { co.resume(); }) == "resume: the coroutine is dead");
  // One that a script made, and scripts that resume those of the host.
  lua.run_string("made = coroutine.create(function(x) coroutine.yield(x) error {code = x} end)");
  const Coroutine made = lua.get<Coroutine>("made");
  CHECK(made.resume(4)[0].integer() == 4);
  try {
    made.resume();
    FAIL("nothing was thrown");
  } catch (const ScriptError& e) {
    CHECK(e.value().table().get(Value("code")).integer() == 4);
    CHECK(contains(e.traceback(), "script:1: in function"));
  }
  CHECK(made.done());
  lua.set("again", Coroutine(lua.get("count").function()));
  CHECK(lua.run_string("return select(2, coroutine.resume(again, 1))")[0].integer() == 1);
}

TEST_CASE("coroutines know that they run, and keep modes of their own") {
  Interpreter lua;
  lua.run_string("ml = require 'moonlet'");
  std::unique_ptr<Coroutine> co;
  lua.register_function("status", [&] { return static_cast<int>(co->status()); });
  lua.register_function("resume", [&] { co->resume(); });
  co = std::make_unique<Coroutine>(
      lua.run_string("return function() coroutine.yield(status(), (pcall(resume))) end")[0]
          .function());
  const Values values = co->resume();
  CHECK(values[0].integer() == static_cast<int>(Coroutine::Status::Running));
  CHECK(!values[1].boolean());
  const Coroutine modes(lua.run_string(R"(return function()
    ml.no_grad(function() coroutine.yield(ml.is_grad_enabled()) end)
  end)")[0]
                            .function());
  CHECK(!modes.resume()[0].boolean());
  CHECK(lua.run_string("return ml.is_grad_enabled()")[0].boolean());
}

TEST_CASE("a host function yields and is resumed later") {
  Interpreter lua;
  lua.register_function("ask", [](const std::string& question) { return Yield(question, 1); });
  const Coroutine co(
      lua.run_string("return function() return 'got ' .. ask('name?') end")[0].function());
  const Values asked = co.resume();
  CHECK((asked.size() == 2 && asked[0].string() == "name?"));
  CHECK(!co.waits());
  CHECK(co.resume("moon")[0].string() == "got moon");
  CHECK(contains(message_of([&] { lua.run_string("ask('x')"); }),
                 "a host function that yields was called outside of a coroutine"));
}

TEST_CASE("scripts wait for futures of the host") {
  Interpreter lua;
  std::promise<std::string> promise;
  lua.register_function("fetch", [&](int) { return promise.get_future(); });
  const Coroutine co(
      lua.run_string("return function(n) local text = fetch(n) return text .. n end")[0]
          .function());
  CHECK(co.resume(3).empty());
  CHECK(co.waits());
  // Resumed too early it waits on.
  CHECK(co.resume().empty());
  CHECK(co.waits());
  promise.set_value("done");
  CHECK(!co.waits());
  CHECK(!co.done());
  CHECK(co.resume()[0].string() == "done3");
  CHECK(co.done());
  // An exception of the future is one of the call.
  promise = {};
  const Coroutine failing(
      lua.run_string("return function() return select(2, pcall(fetch, 1)) end")[0].function());
  CHECK(failing.resume().empty());
  promise.set_exception(std::make_exception_ptr(std::runtime_error("no network")));
  CHECK(contains(failing.resume()[0].string(), "no network"));
  // Outside of coroutines the call takes as long as the future.
  lua.register_function("later", [] {
    return std::async(std::launch::async, [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return 7;
    });
  });
  CHECK(lua.run_string("return later()")[0].integer() == 7);
  lua.register_function("lazily",
                        [] { return std::async(std::launch::deferred, [] { return 8; }); });
  CHECK(lua.run_string("return lazily()")[0].integer() == 8);
}

TEST_CASE("what waits can be stopped and collected") {
  std::promise<int> never;
  Interpreter::Options options;
  options.wall_time = std::chrono::milliseconds(30);
  Interpreter lua(options);
  lua.register_function("fetch", [&] { return never.get_future(); });
  CHECK_THROWS_AS(lua.run_string("fetch()"), LimitExceeded);
  never = {};
  {
    const Coroutine co(lua.get("fetch").function());
    co.resume();
    CHECK(co.waits());
  }
  lua.run_string("collectgarbage() collectgarbage()");
}
