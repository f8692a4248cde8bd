// tests/cpp/interpreter/typed_test.cpp: calls and values with C++ types: both ways, and what does
// not fit.
#include "tests/cpp/catch2.h"

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>

#include "interp/embed/ops.h"
#include "interp/embed/typed.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

enum class Wave { Sine, Saw = 7 };
enum class Step : uint8_t { Up, Down };

struct Vec3 {
  double x, y, z;
};

// What comes back of a value that goes through a script.
template <class T>
T there_and_back(Interpreter& lua, const T& value) {
  return lua.get<TypedFunction<T(const T&)>>("same")(value);
}

}  // namespace

template <>
struct moonlet::EnumNames<Step> {
  static constexpr std::pair<const char*, Step> values[] = {{"up", Step::Up}, {"down", Step::Down}};
};

template <>
struct moonlet::Convert<Vec3> {
  static std::string name() { return "table {x, y, z}"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_table(index) ? Fit::Converted : Fit::None;
  }
  static Vec3 get(Stack& stack, int index) {
    if (!stack.is_table(index)) stack.refuse(index, name());
    return {stack.field<double>(index, "x"), stack.field<double>(index, "y"),
            stack.field<double>(index, "z")};
  }
  static void push(Stack& stack, const Vec3& value) {
    stack.push_table(0, 3);
    stack.set_field(-1, "x", value.x);
    stack.set_field(-1, "y", value.y);
    stack.set_field(-1, "z", value.z);
  }
};

TEST_CASE("functions of scripts have C++ types") {
  Interpreter lua;
  lua.run_string(R"(
    function double(x) return 2 * x end
    function swap(a, b) return b, a end
    function count(...) return select("#", ...) end
    function greet(name) return "hello " .. name end
    function nothing() end
    function bad() return "x" end)");
  const auto twice = lua.get<TypedFunction<double(double)>>("double");
  CHECK(twice(1.5) == 3);
  const auto swap = lua.get<TypedFunction<std::tuple<std::string, int>(int, std::string)>>("swap");
  CHECK(swap(3, "a") == std::tuple<std::string, int>("a", 3));
  CHECK(lua.get<TypedFunction<std::pair<double, bool>(bool, double)>>("swap")(true, 0.5) ==
        std::pair<double, bool>(0.5, true));
  CHECK(lua.get<TypedFunction<int(int, std::optional<int>, const char*)>>("count")(1, {}, "x") ==
        3);
  CHECK(lua.get<std::function<std::string(std::string_view)>>("greet")("you") == "hello you");
  lua.get<TypedFunction<void()>>("nothing")();
  CHECK(lua.get<TypedFunction<Values(int, int)>>("swap")(1, 2)[0].integer() == 2);
  CHECK(message_of([&] { lua.get<TypedFunction<double()>>("bad")(); }) ==
        "bad: result 1: expected number, got string 'x'");
  CHECK(message_of([&] { lua.get<TypedFunction<int()>>("missing"); }) ==
        "get: 'missing': expected function, got nil");
  CHECK(message_of([&] { lua.get<TypedFunction<std::pair<int, int>(int)>>("double")(1); }) ==
        "double: result 2: expected int32, got nil");
  CHECK(lua.get<std::function<void()>>("missing") == nullptr);
  CHECK_THROWS_AS(TypedFunction<void()>()(), Error);
}

TEST_CASE("errors of typed calls come as those of others") {
  Interpreter lua;
  lua.run_string("function fail(x) error({code = x}) end  function say(x) error('no ' .. x) end");
  try {
    lua.get<TypedFunction<void(int)>>("fail")(7);
    FAIL("nothing was thrown");
  } catch (const ScriptError& e) {
    CHECK(e.value().table().get<int>("code") == 7);
    CHECK(e.traceback().find("stack traceback:") == 0);
  }
  CHECK(message_of([&] { lua.get<TypedFunction<void(std::string)>>("say")("way"); }) ==
        "script:1: no way");
  // A host function's own exception comes through.
  lua.register_function("throws", [](int x) { throw std::out_of_range(std::to_string(x)); });
  lua.run_string("function call(x) throws(x) end");
  CHECK_THROWS_AS(lua.get<TypedFunction<void(int)>>("call")(3), std::out_of_range);
  // The stack is left as it was, however often this is done.
  const auto fails = lua.get<TypedFunction<int(double)>>("tostring");
  int failed = 0;
  for (int i = 0; i < 20'000; ++i) try {
      fails(0.5);
    } catch (const ConversionError&) {
      ++failed;
    }
  CHECK(failed == 20'000);
}

TEST_CASE("values of C++'s library go to scripts and come back") {
  Interpreter lua;
  lua.run_string("function same(x) return x end");
  CHECK(there_and_back(lua, std::vector<double>{1, 0.5}) == std::vector<double>{1, 0.5});
  CHECK(there_and_back(lua, std::vector<std::string>{}).empty());
  CHECK(there_and_back(lua, std::deque<bool>{true, false}) == std::deque<bool>{true, false});
  CHECK(there_and_back(lua, std::array<int, 3>{1, 2, 3}) == std::array<int, 3>{1, 2, 3});
  const std::map<std::string, std::vector<int>> map{{"a", {1}}, {"b", {}}};
  CHECK(there_and_back(lua, map) == map);
  const std::unordered_map<int64_t, bool> flags{{-1, true}, {1LL << 60, false}};
  CHECK(there_and_back(lua, flags) == flags);
  using Three = std::tuple<int, std::string, double>;
  // As a value a tuple is a list, as a result it is several values.
  lua.set("three", std::vector<Three>{{1, "x", 0.5}});
  CHECK(lua.get<std::vector<Three>>("three")[0] == Three(1, "x", 0.5));
  CHECK(lua.run_string("return three[1][2]")[0].string() == "x");
  lua.set("pairs_of", std::vector<std::pair<int, int>>{{1, 2}});
  CHECK(lua.get<std::vector<std::pair<int, int>>>("pairs_of")[0].second == 2);
  CHECK(there_and_back(lua, std::optional<int>()) == std::nullopt);
  CHECK(there_and_back(lua, std::optional<int>(3)) == 3);
  using Mixed = std::variant<bool, int, double, std::string, std::vector<int>>;
  for (const Mixed& each :
       {Mixed(true), Mixed(3), Mixed(0.5), Mixed(std::string("s")), Mixed(std::vector<int>{1})})
    CHECK(there_and_back(lua, each) == each);
  CHECK(there_and_back(lua, Wave::Saw) == Wave::Saw);
  CHECK(there_and_back(lua, Step::Down) == Step::Down);
  CHECK(lua.get<TypedFunction<std::string(Step)>>("same")(Step::Up) == "up");
  using std::chrono::milliseconds;
  CHECK(there_and_back(lua, milliseconds(1500)) == milliseconds(1500));
  CHECK(lua.get<TypedFunction<double(milliseconds)>>("same")(milliseconds(100)) == 0.1);
  CHECK(there_and_back(lua, std::filesystem::path("/a/b")) == std::filesystem::path("/a/b"));
  CHECK(there_and_back(lua, std::string("a\0b", 3)).size() == 3);
  const Vec3 v = there_and_back(lua, Vec3{1, 2, 3});
  CHECK((v.x == 1 && v.y == 2 && v.z == 3));
}

TEST_CASE("tensors pass as spans of their elements") {
  Interpreter lua;
  lua.run_string("ml = require 'moonlet'");
  double sum = 0;
  lua.register_function("add_up", [&](std::span<const float> values) {
    for (const float each : values) sum += each;
  });
  lua.register_function("scale", [](std::span<float> values, float by) {
    for (float& each : values) each *= by;
  });
  lua.run_string("x = ml.ones(2, 3) scale(x, 2) add_up(x)");
  CHECK(sum == 12);
  CHECK(message_of([&] { lua.run_string("add_up(ml.ones{2, dtype = ml.float64})"); }) ==
        "script:1: add_up: argument 1: expected Tensor of float32, got Tensor of float64");
  const float values[] = {1, 2};
  lua.set("y", std::span<const float>(values));
  CHECK(lua.run_string("return y:sum():item()")[0].number() == 3);
  const Tensor held = lua.get<Tensor>("y");
  lua.set("z", held);
  CHECK(lua.run_string("return y == z")[0].boolean());
}

TEST_CASE("numbers that do not fit are errors") {
  Interpreter lua;
  lua.run_string("function same(x) return x end  inf = 1/0  nan = 0/0");
  const auto to_uint8 = lua.get<TypedFunction<uint8_t(double)>>("same");
  CHECK(to_uint8(255) == 255);
  CHECK(message_of([&] { to_uint8(300); }) == "same: result 1: expected uint8 (0 to 255), got 300");
  CHECK(message_of([&] { to_uint8(1.5); }) == "same: result 1: expected uint8, got 1.5");
  CHECK(message_of([&] { to_uint8(std::nan("")); }).find("expected uint8, got") !=
        std::string::npos);
  CHECK(message_of([&] { lua.get<int>("inf"); }) == "get: 'inf': expected int32, got inf");
  CHECK(lua.get<double>("inf") == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(lua.get<float>("nan")));
  lua.set("big", 1e300);
  CHECK(message_of([&] { lua.get<float>("big"); }).find("a number that float holds") !=
        std::string::npos);
  CHECK_THROWS_AS(lua.get<int64_t>("big"), ConversionError);
  CHECK_THROWS_AS(lua.get<std::chrono::nanoseconds>("big"), ConversionError);
  CHECK_THROWS_AS(lua.get<std::chrono::nanoseconds>("nan"), ConversionError);
  CHECK_THROWS_AS(lua.set("x", std::vector<uint64_t>{~0ULL}), ConversionError);
  CHECK_THROWS_AS(lua.get<bool>("big"), ConversionError);
  lua.set("text", "5");
  CHECK_THROWS_AS(lua.get<int>("text"), ConversionError);
  CHECK_THROWS_AS(lua.get<std::string>("big"), ConversionError);
  CHECK(message_of([&] { lua.get<Step>("text"); }) ==
        "get: 'text': expected one of 'up', 'down', got string '5'");
}

TEST_CASE("what is wrong in a container is named") {
  Interpreter lua;
  lua.run_string("list = {1, 2, 'x'}  map = {a = {1, 2.5}}  rate = 3  deep = {v = {x = 1, y = 2}}");
  CHECK(message_of([&] { lua.get<std::vector<int>>("list"); }) ==
        "get: 'list': item 3: expected int32, got string 'x'");
  CHECK(message_of([&] { lua.get<std::map<std::string, std::vector<int>>>("map"); }) ==
        "get: 'map': key string 'a': item 2: expected int32, got 2.5");
  CHECK(message_of([&] { lua.get<std::array<int, 2>>("list"); }) ==
        "get: 'list': expected 2 items, got 3");
  CHECK(message_of([&] { lua.get<std::vector<int>>("rate"); }) ==
        "get: 'rate': expected list, got 3");
  CHECK(message_of([&] { lua.get<std::map<std::string, Vec3>>("deep"); }) ==
        "get: 'deep': key string 'v': field 'z': expected number, got nil");
  CHECK(message_of([&] { lua.get<std::variant<bool, std::string>>("rate"); }) ==
        "get: 'rate': expected boolean or string, got 3");
  const Table map = lua.get("map").table();
  CHECK(map.get<std::vector<double>>("a") == std::vector<double>{1, 2.5});
  CHECK(message_of([&] { map.get<int>("a"); }) == "field 'a': expected int32, got table");
  map.set("b", std::vector<int>{4, 5});
  CHECK(lua.run_string("return map.b[2]")[0].integer() == 5);
  CHECK(lua.get("list").table().get<std::string>(3) == "x");
}

TEST_CASE("functions of the host have parameters of their own") {
  Interpreter lua;
  lua.register_function("hypot", [](double x, double y) { return std::sqrt(x * x + y * y); });
  CHECK(lua.run_string("return hypot(3, 4)")[0].number() == 5);
  CHECK(message_of([&] { lua.run_string("hypot(3, 'x')"); }) ==
        "script:1: hypot: argument 2: expected number, got string 'x'");
  CHECK(message_of([&] { lua.run_string("hypot(3)"); }) ==
        "script:1: hypot: argument 2: expected number, got nothing");
  lua.register_function("split", [](std::string_view text) {
    return std::tuple<std::string, size_t>(text, text.size());
  });
  CHECK(lua.run_string("return select(2, split('abc'))")[0].integer() == 3);
  lua.register_function(
      "count", [](int first, const Values& rest) { return first + static_cast<int>(rest.size()); });
  CHECK(lua.run_string("return count(1, nil, {}, 'x')")[0].integer() == 4);
  lua.register_function("maybe", [](int x, std::optional<int> y) { return x + y.value_or(10); });
  CHECK(lua.run_string("return maybe(1) + maybe(1, 2)")[0].integer() == 14);
  lua.register_function(
      "plain", +[](int x) noexcept { return x; });
  CHECK(lua.run_string("return plain(2)")[0].integer() == 2);
  lua.register_function("sum", [](const std::vector<double>& values) {
    double sum = 0;
    for (const double each : values) sum += each;
    return sum;
  });
  CHECK(lua.run_string("return sum {1, 2, 3}")[0].number() == 6);
  CHECK(message_of([&] { lua.run_string("sum {1, false}"); }) ==
        "script:1: sum: argument 1: item 2: expected number, got false");
  // Functions go both ways.
  lua.register_function("compose", [](std::function<int(int)> f, std::function<int(int)> g) {
    return std::function<int(int)>([f, g](int x) { return f(g(x)); });
  });
  CHECK(lua.run_string("local function inc(x) return x + 1 end "
                       "return compose(inc, compose(inc, inc))(1)")[0]
            .integer() == 4);
  // The result of a nested call that does not fit is no argument of the function.
  CHECK(message_of([&] {
          lua.run_string("compose(function() return 'x' end, print)(1)");
        }).find("argument") == std::string::npos);
}

TEST_CASE("overloads are chosen by their arguments") {
  Interpreter lua;
  lua.register_function("kind", overload([](int) { return "int"; }, [](double) { return "double"; },
                                         [](const std::string&) { return "string"; },
                                         [](const std::vector<int>&) { return "list"; },
                                         [](const std::map<std::string, int>&) { return "map"; },
                                         [](int, int) { return "two"; }));
  CHECK(lua.run_string("return table.concat({kind(1), kind(1.5), kind 'x', kind {1}, kind {a = 1}, "
                       "kind(1, 2)}, ' ')")[0]
            .string() == "int double string list map two");
  CHECK(message_of([&] { lua.run_string("kind(true, {})"); }) ==
        "script:1: kind: no overload takes (true, table); candidates:\n"
        "  kind(int32) -> string\n  kind(number) -> string\n  kind(string) -> string\n"
        "  kind(list of int32) -> string\n  kind(table of string to int32) -> string\n"
        "  kind(int32, int32) -> string");
}

TEST_CASE("typed calls nest and end with their interpreter") {
  auto lua = std::make_unique<Interpreter>();
  lua->run_string("function down(n) if n == 0 then return 0 end return 1 + again(n - 1) end");
  const auto down = lua->get<TypedFunction<int(int)>>("down");
  lua->register_function("again", [&](int n) { return down(n); });
  CHECK(down(50) == 50);
  Interpreter::Options options;
  options.instructions = 100'000;
  Interpreter bounded(options);
  bounded.run_string("function forever() while true do pcall(error) end end");
  CHECK_THROWS_AS(bounded.get<TypedFunction<void()>>("forever")(), LimitExceeded);
  lua.reset();
  CHECK_THROWS_AS(down(1), Error);
}
