// tests/cpp/interpreter/fork_test.cpp: a process that was forked after ops on several threads,
// loaders with workers and runs with a limit of time goes on computing, and so does its parent.
#include "tests/cpp/catch2.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "interp/embed/moonlet.h"
#include "interp/embed/ops.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

// How a child ends that runs `body`: its status, 100 for an exception, 128 and its number for a
// signal. One that hangs is ended.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int status = 100;
    try {
      status = body();
    } catch (const std::exception& e) {
      (void)!write(STDERR_FILENO, e.what(), std::char_traits<char>::length(e.what()));
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const char* const kWork = R"(
  local ml = require 'moonlet'
  ml.set_num_threads(3)
  local a = ml.ones(300, 300)
  local product = a:matmul(a):sum():item()
  local x = ml.ones(1 << 20, { requires_grad = true })
  ;(x * 2):sum():backward()
  local s, u = ml.linalg.svd(ml.eye(64)), ml.nn.functional.conv2d(ml.ones(4, 8, 32, 32), ml.ones(8, 8, 3, 3))
  assert(product == 300 ^ 3 and x.grad:sum():item() == 2 << 20 and u:max():item() == 72)
  return ml.arange(1, 1 << 21):double():sum():item())";
constexpr double kSum = double(1 << 21) * ((1 << 21) + 1) / 2;

double work(Interpreter& lua) { return lua.run_string(kWork)[0].number(); }

}  // namespace

TEST_CASE("a forked process computes on several threads") {
  Interpreter lua;
  REQUIRE(work(lua) == kSum);
  for (int i = 0; i < 3; ++i) {
    CHECK(in_child([&] {
            if (work(lua) != kSum) return 1;
            // And so does one that it forks itself.
            return in_child([&] { return work(lua) == kSum ? 0 : 2; });
          }) == 0);
    CHECK(work(lua) == kSum);
  }
}

TEST_CASE("a forked process computes without an interpreter, and in one of its own") {
  const auto sum = [] { return *detach(moonlet::sum(ones({1 << 22}))).data<float>(); };
  REQUIRE(sum() == 1 << 22);
  CHECK(in_child([&] {
          Interpreter lua;
          return sum() == 1 << 22 && work(lua) == kSum ? 0 : 1;
        }) == 0);
}

TEST_CASE("a fork on one thread while another one has computed") {
  Interpreter first;
  REQUIRE(work(first) == kSum);
  int status = -1;
  std::thread([&] {
    Interpreter second;
    work(second);
    status = in_child([&] { return work(second) == kSum && work(first) == kSum ? 0 : 1; });
  }).join();
  CHECK(status == 0);
  CHECK(work(first) == kSum);
}

TEST_CASE("a limit of time holds in a forked process") {
  Interpreter::Options options;
  options.wall_time = 300ms;
  Interpreter lua(options);
  lua.run_string("return 1");
  const auto ends = [&] {
    try {
      lua.run_string("while true do end");
    } catch (const LimitExceeded& e) {
      return e.limit() == Limit::WallTime ? 0 : 1;
    }
    return 2;
  };
  CHECK(in_child(ends) == 0);
  CHECK(ends() == 0);
  // One that never runs there ends as well.
  CHECK(in_child([&] {
          const Interpreter gone = std::move(lua);
          return 0;
        }) == 0);
}

TEST_CASE("workers stay with the parent") {
  Interpreter lua;
  lua.run_string(R"(
    ml = require 'moonlet'
    local class = require 'moonlet.class'
    local Set = class('Set', ml.data.Dataset)
    function Set:init() end
    function Set:size() return 12 end
    function Set:get(i) return i end
    loader = ml.data.DataLoader(Set(), { num_workers = 2, persistent_workers = true })
    step, state = loader:iter()
    first = step(state):item()
    function rest()
      local sum = first
      for x in step, state do sum = sum + x:item() end
      return sum
    end)");
  // The pass of the parent has none of its workers there; another one has its own.
  CHECK(in_child([&] {
          try {
            lua.run_string("rest()");
            return 1;
          } catch (const ScriptError& e) {
            if (std::string(e.what()).find("forked") == std::string::npos) return 2;
          }
          lua.run_string("step, state = nil collectgarbage()");
          const auto sum =
              lua.run_string("local s = 0 for x in loader:iter() do s = s + x:item() end return s");
          return sum[0].integer() == 78 ? 0 : 3;
        }) == 0);
  CHECK(lua.run_string("return rest()")[0].integer() == 78);
}
