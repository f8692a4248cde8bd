// tests/cpp/interpreter/held_values_test.cpp: what hosts hold of an interpreter and ask of it again
// and again: handles whose slots are used again, names of fields that are known, tensors that
// scripts have.
#include "tests/cpp/catch2.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "interp/embed/ops.h"
#include "interp/embed/typed.h"

using moonlet::Interpreter;
using moonlet::Table;
using moonlet::Tensor;
using moonlet::TypedFunction;
using moonlet::Value;

TEST_CASE("slots of dropped handles are used again for other values") {
  Interpreter lua;
  lua.run_string("function made(i) return {at = i} end");
  const auto made = lua.get<TypedFunction<Table(int)>>("made");
  std::vector<Table> held;
  for (int i = 0; i < 300; ++i) held.push_back(made(i));
  for (int round = 0; round < 5; ++round) {
    // Every second one goes, and what comes takes its slot.
    for (size_t i = round % 2; i < held.size(); i += 2)
      held[i] = made(static_cast<int>(i) + 1000 * round);
    for (size_t i = 0; i < held.size(); ++i)
      REQUIRE(held[i].get<int>("at") % 1000 == static_cast<int>(i));
  }
}

TEST_CASE("a dropped handle lets its value be collected") {
  Interpreter lua;
  lua.run_string(
      "weak = setmetatable({}, {__mode = 'k'}) "
      "function made() local t = {} weak[t] = true return t end "
      "function left() local n = 0 for _ in pairs(weak) do n = n + 1 end return n end");
  const auto made = lua.get<TypedFunction<Table()>>("made");
  const auto left = lua.get<TypedFunction<int()>>("left");
  SECTION("outside of calls") {
    std::optional<Table> table = made();
    lua.collect();
    CHECK(left() == 1);
    table.reset();
    lua.collect();
    CHECK(left() == 0);
  }
  SECTION("by another thread") {
    std::optional<Table> table = made();
    std::thread([&table] { table.reset(); }).join();
    lua.collect();
    CHECK(left() == 0);
  }
  SECTION("inside of a host function") {
    lua.register_function("take", [](const Table& table) { return table.length(); });
    lua.run_string("for i = 1, 50 do take(made()) end");
    lua.collect();
    CHECK(left() == 0);
  }
  SECTION("inside of another interpreter's call") {
    Interpreter other;
    std::optional<Table> table = made();
    other.register_function("drop", [&table] { table.reset(); });
    other.run_string("drop()");
    lua.collect();
    CHECK(left() == 0);
  }
}

TEST_CASE("fields are found by names of all lengths, asked for again and again") {
  Interpreter lua;
  std::vector<std::string> names;
  for (int length = 0; length <= 40; ++length) names.emplace_back(length, 'a');
  // Many of one length, some of which differ in one byte alone, and zeros.
  for (int i = 0; i < 200; ++i) names.push_back("field" + std::to_string(i));
  for (int i = 0; i < 24; ++i) {
    names.emplace_back(24, 'x');
    names.back()[static_cast<size_t>(i)] = '\0';
  }
  const Table table = lua.new_table();
  for (size_t i = 0; i < names.size(); ++i) table.set(names[i], static_cast<int>(i));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      for (int twice = 0; twice < 2; ++twice) {
        REQUIRE(table.get<int>(names[i]) == static_cast<int>(i));
        REQUIRE(table.get(Value(names[i])).integer() == static_cast<int64_t>(i));
      }
      REQUIRE(table.get(Value(names[i] + "?")).is_nil());
    }
    lua.collect();
  }
}

TEST_CASE("what a field is not is said each time, and metamethods hold where they did") {
  Interpreter lua;
  lua.run_string(
      "plain = {text = 'abc'} derived = setmetatable({}, {__index = function(_, k) return k end})");
  const Table plain = lua.get<Table>("plain"), derived = lua.get<Table>("derived");
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(plain.get<int>("text"), "field 'text': expected int32, got string 'abc'");
    CHECK_THROWS_WITH(plain.get<double>("none"), "field 'none': expected number, got nil");
    CHECK_THROWS_WITH(plain.get<double>(3), "item 3: expected number, got nil");
    CHECK(plain.get<std::string>("text") == "abc");
    CHECK(plain.get<std::optional<int>>("none") == std::nullopt);
    CHECK(derived.get(Value("name")).string() == "name");  // untyped: as `t.name`
    CHECK(derived.get<std::optional<std::string>>("name") == std::nullopt);
  }
}

TEST_CASE("a field is read in a host function, in coroutines and after a limit") {
  moonlet::InterpreterOptions options;
  options.instructions = 100'000;
  Interpreter lua(options);
  lua.register_function("x_of", [](const Table& table) { return table.get<double>("x"); });
  CHECK(lua.run_string("local sum = 0 for i = 1, 100 do "
                       "sum = sum + coroutine.wrap(function() return x_of {x = i} end)() end "
                       "return sum")[0]
            .number() == 5050);
  CHECK_THROWS_AS(lua.run_string("while true do pcall(x_of, {x = 1}) end"), moonlet::LimitExceeded);
  CHECK(lua.run_string("return x_of {x = 2}")[0].number() == 2);
}

TEST_CASE("a tensor that a script has comes to it as the same value") {
  Interpreter lua;
  lua.run_string(
      "local last function same(x) local is = rawequal(x, last) last = x return is end "
      "function forget() last = nil end function sum(x) return x:sum():item() end");
  const auto same = lua.get<TypedFunction<bool(Tensor)>>("same");
  const auto sum = lua.get<TypedFunction<double(const Tensor&)>>("sum");
  const Tensor held = moonlet::ones({4});
  CHECK_FALSE(same(held));
  for (int i = 0; i < 3; ++i) CHECK(same(held));
  lua.call("forget");
  lua.collect();
  CHECK_FALSE(same(held));
  CHECK(same(held));
  // What ends with the call is another one each time.
  for (int i = 0; i < 3; ++i) CHECK_FALSE(same(moonlet::ones({4})));
  CHECK(sum(held) == 4);
  CHECK(sum(moonlet::ones({5})) == 5);
  const auto is_nil = lua.get<TypedFunction<bool(Tensor)>>("rawequal");
  CHECK_THROWS_AS(is_nil(held), moonlet::ScriptError);  // rawequal wants a second argument
}

TEST_CASE("a held tensor that two interpreters get is shared by them") {
  Interpreter one, other;
  for (Interpreter* lua : {&one, &other})
    lua->run_string(
        "local kept function keep(x) kept = x end function grow(x) x:resize_(2 * #x) end");
  const Tensor held = moonlet::ones({4});
  const auto keep = one.get<TypedFunction<void(Tensor)>>("keep");
  keep(held);
  keep(held);
  one.get<TypedFunction<void(Tensor)>>("grow")(held);
  other.get<TypedFunction<void(Tensor)>>("keep")(held);
  CHECK_THROWS_AS(one.get<TypedFunction<void(Tensor)>>("grow")(held), moonlet::ScriptError);
}
