// tests/embed/host.cpp: a host program that uses an installed libmoonlet, as an example and a test.
// It shares a buffer with a script, calls both ways, and reads errors. Exits with 1 on a failure.
#include <moonlet/moonlet.h>
#include <moonlet/tensor/set.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "expect.h"

namespace {

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void test_values() {
  moonlet::Interpreter lua;
  const auto results = lua.run_string("return nil, true, 3, 0.5, 'a\\0b', {x = {y = 7}}, print");
  expect(results.size() == 7, "seven results");
  expect(results[0].is_nil() && results[1].boolean() && results[2].integer() == 3, "first three");
  expect(results[3].number() == 0.5 && results[4].string().size() == 3, "number and string");
  expect(results[5].table().get("x").table().get("y").integer() == 7, "nested tables");
  expect(contains(message_of([&] { results[2].string(); }), "a integer came, a string"), "kinds");
  lua.set("config", lua.new_table());
  lua.get("config").table().set("rate", 0.25);
  expect(lua.run_string("return config.rate * 4")[0].number() == 1, "globals and tables");
  expect(lua.get("string.format").is<moonlet::Function>(), "a path");
  expect(lua.call("string.rep", "ab", 3)[0].string() == "ababab", "call by path");
}

void test_entries_and_objects() {
  moonlet::Interpreter lua;
  const auto results = lua.run_string(
      "local t = setmetatable({10, 20, x = {7}}, {__pairs = error, __index = error})"
      "return t, io.stdout, coroutine.create(print)");
  int64_t sum = 0;
  size_t named = 0;
  const moonlet::Entries entries = results[0].table().entries();
  for (const auto& [key, value] : entries) {
    if (key.is<int64_t>()) sum += key.integer() * value.integer();
    if (key.is<std::string>()) named += value.table().entries().size();
  }
  expect(entries.size() == 3 && sum == 50 && named == 1, "all entries of a table");
  expect(lua.new_table().entries().empty(), "none of an empty one");
  expect(results[1].is<moonlet::Object>() && std::string(results[2].type_name()) == "object",
         "kinds that C++ has no type for");
  lua.set("same", lua.run_string("return function(a, b) return a == io.stdout, type(b) end")[0]);
  const auto back = lua.call("same", results[1], results[2].object());
  expect(back[0].boolean() && back[1].string() == "thread", "objects go back");
  moonlet::Interpreter other;
  expect(contains(message_of([&] { other.set("x", results[1]); }), "another"), "but not elsewhere");
}

void test_shared_buffer() {
  float buffer[6] = {1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    moonlet::Interpreter lua;
    lua.run_string("function forward(x) x:mul_(2); return x + 1 end", "model.lua");
    const moonlet::Tensor x = moonlet::from_blob(buffer, moonlet::Dims{2, 3},
                                                 moonlet::DType::Float32, [&] { ++released; });
    const moonlet::Tensor y = lua.call("forward", x)[0].tensor();
    expect(buffer[0] == 2 && buffer[5] == 12, "the script changes the host's own buffer");
    expect(x.data<float>() == buffer, "no copy");
    expect(y.dim() == 2 && y.size(1) == 3, "the shape of the result");
    expect(y.data<float>()[0] == 3 && y.data<float>()[5] == 13, "the values of the result");
  }
  expect(released == 1, "the deleter runs once, when script and host are done");
}

void test_errors() {
  moonlet::Interpreter lua;
  try {
    lua.run_string("local function inner() error('no luck') end\ninner()", "bad.lua");
    expect(false, "an error is thrown");
  } catch (const moonlet::ScriptError& e) {
    expect(e.message() == "bad.lua:1: no luck", "the message");
    expect(contains(e.traceback(), "in upvalue 'inner'") || contains(e.traceback(), "inner"),
           "the traceback");
    expect(contains(e.traceback(), "stack traceback:"), "its title");
    expect(e.what() == e.message(), "what() is the message alone");
  }
  expect(contains(message_of([&] { lua.run_string("x = = 1", "s"); }), "s:1: unexpected symbol"),
         "a syntax error");
  expect(contains(message_of([&] { lua.run_file("/nope.lua"); }), "/nope.lua"), "a missing file");
  expect(contains(message_of([&] { lua.call("nowhere"); }), "nowhere"), "a missing function");
  expect(contains(message_of([&] { lua.run_string("error({})"); }), "table"), "an error object");
  expect(lua.run_string("return 1")[0].integer() == 1, "usable after errors");
}

void test_host_functions() {
  moonlet::Interpreter lua;
  lua.register_function("twice", [](const moonlet::Values& arguments) -> moonlet::Values {
    return {arguments.at(0).number() * 2};
  });
  expect(lua.run_string("return twice(21)")[0].number() == 42, "a host function");
  const auto caught = lua.run_string("return pcall(twice, 'x')");
  expect(!caught[0].boolean() && contains(caught[1].string(), "a string came"), "its exception");
  lua.register_function(
      "again", [&](const moonlet::Values& arguments) { return arguments.at(0).function()(5); });
  expect(lua.run_string("return again(function(n) return n + 1 end)")[0].integer() == 6, "nesting");
  expect(lua.run_string("return coroutine.wrap(function() return again(math.abs) end)()")[0]
                 .integer() == 5,
         "from a coroutine");
  expect(
      contains(message_of([&] { lua.run_string("again(function() error('deep') end)"); }), "deep"),
      "an error through both");
}

void test_lifetime() {
  moonlet::Function kept = [] {
    moonlet::Interpreter lua;
    return lua.run_string("return function() end")[0].function();
  }();
  expect(contains(message_of([&] { kept(); }), "closed"), "a function outlives its interpreter");
  moonlet::Interpreter first;
  moonlet::Interpreter second;
  const moonlet::Value table = first.new_table();
  expect(contains(message_of([&] { second.set("t", table); }), "another"), "a foreign value");
  moonlet::Interpreter moved = std::move(first);
  expect(moved.run_string("return 2")[0].integer() == 2, "an interpreter moves");
}

// What scripts may do is the host's choice; a run that passes a limit ends and no other.
void test_options() {
  std::string shown;
  moonlet::Interpreter::Options options;
  options.libraries.io = options.libraries.os = false;
  options.instructions = 1'000'000;
  options.output = [&](moonlet::Stream, std::string_view text) { shown += text; };
  moonlet::Interpreter lua(options);
  lua.run_string("print('to the host', io, os)");
  expect(shown == "to the host\tnil\tnil\n", "output and libraries");
  try {
    lua.run_string("while true do pcall(error) end");
    expect(false, "a limit ends the run");
  } catch (const moonlet::LimitExceeded& e) {
    expect(e.limit() == moonlet::Limit::Instructions, "which limit");
  }
  expect(lua.run_string("return 1")[0].integer() == 1, "usable after a limit");
  moonlet::Interpreter free;
  std::atomic<bool> ended{false};
  std::thread other([&] {
    for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(10))) free.interrupt();
  });
  try {
    free.run_string("while true do end");
    expect(false, "an interrupt ends the run");
  } catch (const moonlet::ScriptInterrupted&) {
  }
  ended = true;
  other.join();
}

// The host's own exceptions and the script's error values come out as they went in.
void test_error_values() {
  struct Refused : std::runtime_error {
    using runtime_error::runtime_error;
  };
  moonlet::Interpreter lua;
  lua.register_function(
      "refuse", [](const moonlet::Values&) -> moonlet::Values { throw Refused("not today"); });
  try {
    lua.run_string("coroutine.wrap(function() refuse() end)()");
    expect(false, "an exception comes out");
  } catch (const Refused& e) {
    expect(std::string(e.what()) == "not today", "of its own type");
  }
  try {
    lua.run_string("error({code = 404})");
  } catch (const moonlet::ScriptError& e) {
    expect(e.value().table().get("code").as<uint16_t>() == 404, "a table as error value");
  }
}

// One storage in the host and in two interpreters, each with a value of its own for it.
void test_shared_storage() {
  moonlet::TypedStorage storage(4, {});
  moonlet::Tensor x = storage.tensor();
  std::optional<moonlet::Interpreter> first(std::in_place);
  moonlet::Interpreter second;
  for (moonlet::Interpreter* lua : {&*first, &second})
    lua->run_string(
        "function take(x) s = x:storage() s[1] = s[1] + 1 return rawequal(s, x:storage()) end");
  expect(first->call("take", x)[0].boolean(), "the same value while it lives");
  expect(second.call("take", x)[0].boolean(), "also in another interpreter");
  expect(storage.get(0).to_double() == 2, "both write the host's storage");
  try {
    second.run_string("s:resize(6)");
    expect(false, "its size is fixed");
  } catch (const moonlet::ScriptError& e) {
    expect(e.message().find("shared with another interpreter") != std::string::npos, "and said so");
  }
  first.reset();
  moonlet::TypedStorage one(4, {});
  moonlet::Tensor y = one.tensor();
  expect(second.call("take", y)[0].boolean(), "a storage that one interpreter knows");
  second.run_string("collectgarbage() s:resize(6) s[6] = 7");
  expect(one.size() == 6 && one.get(5).to_double() == 7, "a script resizes it");
  moonlet::set_(y, one, 4, {2}, {1});
  expect(y.data<float>()[1] == 7, "a tensor moves in it");
}

void test_threads() {
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(4);
  for (size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&sums, i] {
      moonlet::Interpreter lua;
      lua.set("n", 1000 * (i + 1));
      sums[i] = lua.run_string("local s = 0 for k = 1, n do s = s + #tostring(k) end return s")[0]
                    .integer();
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(sums[0] == 2893 && sums[3] == 14893, "one interpreter per thread");
}

}  // namespace

int main() {
  try {
    test_values();
    test_entries_and_objects();
    test_shared_buffer();
    test_errors();
    test_host_functions();
    test_options();
    test_error_values();
    test_lifetime();
    test_shared_storage();
    test_threads();
  } catch (const std::exception& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("embedding moonlet %s: %s\n", moonlet::version(), failures == 0 ? "good" : "failed");
  return failures == 0 ? 0 : 1;
}
