// tests/cpp/interpreter/host_test.cpp: a host and its scripts: interpreters that end while they
// run, exceptions and error values on their way, numbers at the border.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "interp/embed/moonlet.h"
#include "lua.hpp"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

// An exception of the host's own, which no base class of Moonlet's knows.
struct Trouble : std::exception {
  explicit Trouble(int n) : number(n) {}
  const char* what() const noexcept override { return "trouble at the host"; }
  int number;
};

// Counts how many of it live.
struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  ~Counted() { --alive; }
};

}  // namespace

// --- ends ----------------------------------------------------------------------------------------

TEST_CASE("finalizers that run when an interpreter closes call host functions") {
  std::vector<std::string> log;
  {
    Interpreter lua;
    lua.register_function("note", [&](const Values& v) -> Values {
      log.push_back(v.at(0).string());
      // Back into the interpreter, while it closes.
      if (v.size() > 1) log.push_back(v[1].function()("back")[0].string());
      log.push_back(lua.run_string("return 'ran'")[0].string());
      return {};
    });
    lua.run_string(R"(
      local note = note
      first = setmetatable({}, {__gc = function() note("first") end})
      second = setmetatable({}, {__gc = function() note("second", function(s) return s end) end})
      third = setmetatable({}, {__gc = function() note(42, print) end}))");
  }
  // The third's argument is refused, which is a warning.
  CHECK(log == std::vector<std::string>{"second", "back", "ran", "first", "ran"});
}

TEST_CASE("a host function dies after the finalizers that were collected with it") {
  int calls = 0;
  Interpreter lua;
  Counted counted;
  lua.set("f", lua.make_function([&calls, counted](const Values&) -> Values {
    ++calls;
    return {};
  }));
  CHECK(Counted::alive == 2);
  lua.run_string("local f = f  setmetatable({}, {__gc = function() f() end})  _G.f = nil");
  for (int i = 0; i < 4; ++i) lua.run_string("collectgarbage()");
  CHECK(calls == 1);
  CHECK(Counted::alive == 1);
}

TEST_CASE("a host function that is replaced while it runs stays until it has ended") {
  Interpreter lua;
  const auto token = std::make_shared<int>(7);
  lua.register_function("f", [&lua, token](const Values&) -> Values {
    lua.run_string("f = nil collectgarbage() collectgarbage()");
    return {*token};
  });
  CHECK(lua.run_string("return f()")[0].integer() == 7);
  CHECK(lua.run_string("return f")[0].is_nil());
}

TEST_CASE("a host function destroys the interpreter that called it") {
  std::optional<Interpreter> lua(std::in_place);
  bool finalized = false, went_on = false;
  lua->register_function("finish", [&](const Values&) -> Values {
    finalized = true;
    return {};
  });
  lua->register_function("note", [&](const Values&) -> Values {
    went_on = true;
    return {};
  });
  lua->register_function("kill", [&](const Values& v) -> Values {
    const Function held = v[0].function();
    lua.reset();
    CHECK_FALSE(finalized);
    CHECK(contains(message_of<std::exception>([&] { held(); }), "closed"));
    return {"result"};
  });
  lua->set("object", lua->new_table());
  const Function run = lua->run_string(R"(
    local finish, note, kill = finish, note, kill
    keep = setmetatable({}, {__gc = function() finish() end})
    return function() pcall(kill, print) for i = 1, 3 do pcall(error) end note() return 1 end)")[0]
                           .function();
  CHECK(contains(message_of<std::exception>([&] { run(); }), "closed while it ran"));
  CHECK(finalized);
  CHECK_FALSE(went_on);
  CHECK_FALSE(lua.has_value());
  CHECK(contains(message_of<std::exception>([&] { run(); }), "closed"));
}

TEST_CASE("a host function replaces or moves the interpreter that called it") {
  Interpreter lua;
  lua.register_function("replace", [&](const Values&) -> Values {
    lua = Interpreter();
    lua.run_string("x = 5");
    return {};
  });
  CHECK(contains(message_of<std::exception>([&] { lua.run_string("replace()"); }),
                 "closed while it ran"));
  CHECK(lua.get("x").integer() == 5);
  CHECK(lua.get("replace").is_nil());

  Interpreter other;
  lua.register_function("move", [&](const Values&) -> Values {
    other = std::move(lua);
    return {other.run_string("return 1")[0]};
  });
  CHECK(lua.run_string("return move()")[0].integer() == 1);
  CHECK(other.get("x").integer() == 5);
}

TEST_CASE("an interpreter dies in a coroutine, in a finalizer, and below another interpreter") {
  auto lua = std::make_unique<Interpreter>();
  const auto kill = [&](const Values&) -> Values {
    lua.reset();
    return {};
  };
  lua->register_function("kill", kill);
  CHECK(contains(message_of<std::exception>([&] {
                   lua->run_string(
                       "coroutine.wrap(function() pcall(kill) while true do end end)()");
                 }),
                 "closed"));
  lua = std::make_unique<Interpreter>();
  lua->register_function("kill", kill);
  CHECK(contains(message_of<std::exception>([&] {
                   lua->run_string(
                       "setmetatable({}, {__gc = function() kill() end}) "
                       "while true do collectgarbage() end");
                 }),
                 "closed"));
  CHECK(lua == nullptr);

  lua = std::make_unique<Interpreter>();
  Interpreter inner;
  inner.register_function("kill", kill);
  lua->register_function("go_in",
                         [&](const Values&) { return inner.run_string("kill() return 3"); });
  CHECK(contains(
      message_of<std::exception>([&] { lua->run_string("x = go_in()  while true do end"); }),
      "closed"));
  CHECK(inner.run_string("return 4")[0].integer() == 4);
}

TEST_CASE("an interpreter that was moved from says so") {
  Interpreter lua;
  const Interpreter moved = std::move(lua);
  // NOLINTBEGIN(bugprone-use-after-move)
  const char* wanted = "moved from";
  CHECK(contains(message_of<std::exception>([&] { lua.run_string("x = 1"); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.get("x"); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.set("x", 1); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.new_table(); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.call("f"); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.state(); }), wanted));
  CHECK(contains(message_of<std::exception>([&] { lua.with_state([](lua_State*) {}); }), wanted));
  CHECK(contains(
      message_of<std::exception>([&] { lua.make_function([](const Values& v) { return v; }); }),
      wanted));
  lua.interrupt();
  lua = Interpreter();
  CHECK(lua.run_string("return 2")[0].integer() == 2);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("values outlive their interpreter") {
  Values held;
  Tensor tensor;
  {
    Interpreter lua;
    held = lua.run_string("return {}, print, require 'moonlet'.ones(3)");
    tensor = held[2].tensor();
  }
  CHECK(tensor.data<float>()[2] == 1);
  CHECK(contains(message_of<std::exception>([&] { held[0].table().get(1); }), "closed"));
  CHECK(contains(message_of<std::exception>([&] { held[1].function()(); }), "closed"));
  Interpreter other;
  CHECK(contains(message_of<std::exception>([&] { other.set("x", held[0]); }), "closed"));
}

TEST_CASE("scripts cannot reach what a host function is made of") {
  Interpreter lua;
  int calls = 0;
  lua.register_function("f", [&](const Values&) -> Values {
    ++calls;
    return {};
  });
  CHECK(lua.run_string("return debug.getupvalue(f, 1)").empty());
  CHECK_FALSE(lua.run_string("return pcall(debug.setupvalue, f, 1, io.stdout)")[0].boolean());
  CHECK_FALSE(lua.run_string("return pcall(debug.getregistry)")[0].boolean());
  lua.run_string("f()");
  CHECK(calls == 1);
}

// --- errors --------------------------------------------------------------------------------------

TEST_CASE("an exception of the host keeps its type on its way through Lua") {
  Interpreter lua;
  lua.register_function("fail", [](const Values& v) -> Values {
    throw Trouble(static_cast<int>(v.at(0).integer()));
  });
  for (const char* code :
       {"fail(3)", "coroutine.wrap(function() fail(3) end)()",
        "local ok, e = pcall(fail, 3) error(e, 0)",
        "local co = coroutine.create(fail) local _, e = coroutine.resume(co, 3) error(e, 0)",
        "local _ <close> = setmetatable({}, {__close = function() end}) fail(3)",
        "setmetatable({}, {__index = function() fail(3) end}).x()",
        "table.sort({1, 2, 3}, function() fail(3) end)"}) {
    INFO(code);
    try {
      lua.run_string(code);
      FAIL("no exception");
    } catch (const Trouble& e) {
      CHECK(e.number == 3);
    }
  }
  CHECK(lua.run_string("return select(2, pcall(fail, 3))", "s")[0].string() ==
        "s:1: trouble at the host");
  CHECK(contains(lua.run_string("return select(2, pcall(function() fail(3) end))", "s")[0].string(),
                 "s:1: trouble at the host"));
  CHECK(contains(message_of<std::exception>([&] { lua.run_string("fail(4) -- again", "s"); }),
                 "trouble"));
  // Another message is the script's own error.
  CHECK_THROWS_AS(lua.run_string("local _, e = pcall(fail, 3) error('so: ' .. e)"), ScriptError);
  CHECK(lua.run_string("return pcall(fail)")[1].string().size() > 0);
}

TEST_CASE("exceptions of other kinds") {
  Interpreter lua;
  lua.register_function("number", [](const Values&) -> Values { throw 42; });
  lua.register_function("memory", [](const Values&) -> Values { throw std::bad_alloc(); });
  try {
    lua.run_string("number()");
    FAIL("no exception");
  } catch (int n) {
    CHECK(n == 42);
  }
  CHECK(contains(lua.run_string("return select(2, pcall(number))")[0].string(), "host function"));
  CHECK_THROWS_AS(lua.run_string("memory()"), std::bad_alloc);
  // A Lua error that a host function raises by Lua's own means passes untouched.
  lua.register_function("raise", [&](const Values&) -> Values {
    luaL_error(lua.state(), "raised");
    return {};
  });
  CHECK(lua.run_string("return select(2, pcall(raise))")[0].string() == "raised");
  CHECK_THROWS_AS(lua.with_state([](lua_State*) { throw Trouble(1); }), Trouble);
}

TEST_CASE("nested calls of host and script add nothing to an error") {
  Interpreter lua;
  lua.register_function("again", [](const Values& v) { return v.at(0).function()(); });
  try {
    lua.run_string(
        "again(function() again(function() again(function() error('deep') end) end) end)", "s");
    FAIL("no exception");
  } catch (const ScriptError& e) {
    CHECK(std::string(e.what()) == "s:1: deep");
    CHECK(e.message() == e.what());
    CHECK(contains(e.traceback(), "stack traceback:"));
  }
  lua.register_function("fail", [](const Values&) -> Values { throw Trouble(5); });
  CHECK_THROWS_AS(lua.run_string("again(function() again(fail) end)"), Trouble);
}

TEST_CASE("a ScriptError holds the error value") {
  Interpreter lua;
  const auto value_of = [&](const char* code) {
    try {
      lua.run_string(code, "s");
    } catch (const ScriptError& e) {
      return e.value();
    }
    FAIL("no error");
    return Value();
  };
  CHECK(value_of("error({code = 5, inner = {name = 'x'}})").table().get("code").integer() == 5);
  CHECK(value_of("error('text')").string() == "s:1: text");
  CHECK(value_of("error(7)").integer() == 7);
  CHECK(value_of("error(true)").boolean());
  CHECK(value_of("error()").is_nil());
  CHECK(value_of("error(print)").is<Function>());
  CHECK(value_of("error(coroutine.create(print))").is<Object>());
  CHECK(contains(message_of<std::exception>([&] { lua.run_string("error({})"); }),
                 "error object is a table"));
  CHECK(message_of<std::exception>([&] {
          lua.run_string("error(setmetatable({}, {__tostring = function() return 'own' end}))");
        }) == "own");
  // Through a host function and a coroutine it stays the same table.
  lua.register_function("again", [](const Values& v) { return v.at(0).function()(); });
  CHECK(lua.run_string(R"(
    local e = {}
    local function fail() error(e) end
    local _, a = pcall(again, fail)
    local _, b = pcall(again, function() coroutine.wrap(fail)() end)
    return a == e and b == e)")[0]
            .boolean());
  CHECK(value_of("again(function() error({code = 6}) end)").table().get("code").integer() == 6);
}

// --- values --------------------------------------------------------------------------------------

TEST_CASE("integers that do not fit are errors, both ways") {
  Interpreter lua;
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  CHECK(contains(message_of<std::exception>([&] { lua.set("x", most); }), "18446744073709551615"));
  CHECK_THROWS_AS(Value(uint64_t{1} << 63), Error);
  CHECK(Value((uint64_t{1} << 63) - 1).integer() == std::numeric_limits<int64_t>::max());
  CHECK(Value(300).as<int16_t>() == 300);
  CHECK(contains(message_of<std::exception>([&] { Value(300).as<uint8_t>(); }),
                 "300 does not fit uint8"));
  CHECK_THROWS_AS(Value(-1).as<uint64_t>(), Error);
  CHECK_THROWS_AS(Value(-1).as<uint32_t>(), Error);
  CHECK_THROWS_AS(Value(int64_t{1} << 31).as<int32_t>(), Error);
  CHECK(Value(-(int64_t{1} << 31)).as<int32_t>() == std::numeric_limits<int32_t>::min());
  CHECK(Value(2.0).as<int>() == 2);
  CHECK(contains(message_of<std::exception>([&] { Value(2.5).as<int>(); }),
                 "2.5 came, an integer was expected"));
  CHECK_THROWS_AS(Value(std::nan("")).integer(), Error);
  CHECK_THROWS_AS(Value(0x1p63).integer(), Error);
  CHECK(Value(-0x1p63).integer() == std::numeric_limits<int64_t>::min());
  CHECK_THROWS_AS(Value("3").as<int>(), Error);
  CHECK(Value(1).as<float>() == 1);
  CHECK(Value("s").as<std::string>() == "s");
  CHECK(Value(static_cast<const char*>(nullptr)).is_nil());
  CHECK_FALSE(std::is_constructible_v<Value, int*>);
}

TEST_CASE("set walks a path as get does") {
  Interpreter lua;
  lua.run_string("a = {b = {}} p = setmetatable({}, {__newindex = function(_, k) seen = k end})");
  lua.set("a.b.c", 5);
  CHECK(lua.run_string("return a.b.c")[0].integer() == 5);
  CHECK(lua.get("a.b.c").integer() == 5);
  lua.set("p.q", 1);
  CHECK(lua.get("seen").string() == "q");
  CHECK(contains(message_of<std::exception>([&] { lua.set("a.x.y", 1); }),
                 "there is no 'a.x' for 'a.x.y'"));
  CHECK(
      contains(message_of<std::exception>([&] { lua.get("nothing.y"); }), "there is no 'nothing'"));
  lua.register_function("a.f", [](const Values&) -> Values { return {9}; });
  CHECK(lua.call("a.f")[0].integer() == 9);
}

TEST_CASE("calls with values of all kinds") {
  Interpreter lua;
  const Function same = lua.run_string("return function(...) return ... end")[0].function();
  const Values out = same(1, 2.5, true, nullptr, "text", lua.new_table(), same);
  REQUIRE(out.size() == 7);
  CHECK(out[4].string() == "text");
  CHECK(out[6].is<Function>());
  CHECK(same().empty());
  CHECK(same(1, 2)[1].integer() == 2);
  const Value thread = lua.run_string("return coroutine.create(print)")[0];
  CHECK(lua.run_string("return type")[0].function()(thread)[0].string() == "thread");
  const Function deep = lua.run_string("return function(f, n) return f(n) end")[0].function();
  int depth = 0;
  lua.register_function("nest", [&](const Values& v) -> Values {
    ++depth;
    return deep(lua.get("nest"), v.at(0).integer() + 1);
  });
  CHECK(message_of<std::exception>([&] { lua.call("nest", 0); }) != "");
  CHECK(depth > 10);
  CHECK(same(3)[0].integer() == 3);
}
