// tests/cpp/interpreter/compiled_test.cpp: compiled functions in a host's interpreters: limits and
// interrupts while plans run, memory that garbage holds, and interpreters on several threads.
#include "tests/cpp/catch2.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "interp/embed/moonlet.h"
#include "interp/embed/ops.h"
#include "tests/cpp/limits.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A compiled function of many steps, `deep`, whose plan has run.
const char* const kDeep = R"(
  ml = require 'moonlet'
  x = ml.eye(100)
  deep = ml.compile(function(v) for _ = 1, 400 do v = v:matmul(v) end return v end)
  function runs(f)
    local n = 0
    for count in f:explain():gmatch 'run (%d+) time' do n = n + tonumber(count) end
    return n
  end)";

}  // namespace

TEST_CASE("limits of time and instructions end runs of plans") {
  Interpreter::Options options;
  SECTION("of time") {
    options.wall_time = 1s;
    Interpreter lua(options);
    lua.run_string("ml = require 'moonlet'");
    lua.run_string("x = ml.rand(64, 64) f = ml.compile(function(v) return v:matmul(v):exp() end)");
    for (int i = 0; i < 3; ++i) lua.run_string("f(x)");
    check_limit(lua, Limit::WallTime, "while true do f(x) end");
    check_limit(lua, Limit::WallTime, "while true do pcall(f, x) end");
    CHECK(lua.run_string("return f(x):dim()")[0].integer() == 2);
  }
  SECTION("of instructions") {
    options.instructions = 3'000'000;
    Interpreter lua(options);
    lua.run_string("ml = require 'moonlet' x = ml.rand(3)");
    lua.run_string("f = ml.compile(function(v) return v * 2 end) for _ = 1, 3 do f(x) end");
    check_limit(lua, Limit::Instructions, "while true do f(x) end");
    CHECK(lua.run_string("return f(x):dim()")[0].integer() == 1);
  }
}

TEST_CASE("an interrupt is seen between the steps of a plan") {
  Interpreter lua;
  lua.run_string(kDeep);
  lua.run_string("for _ = 1, 3 do deep(x) end assert(runs(deep) == 1)");
  std::atomic<bool> runs = false;
  lua.register_function("begin", [&](const Values&) -> Values {
    runs = true;
    return {};
  });
  bool stopped = false;
  // A request that comes late meets the script after the call.
  for (int attempt = 0; attempt < 200 && !stopped; ++attempt) {
    runs = false;
    std::thread stops([&] {
      while (!runs) std::this_thread::yield();
      lua.interrupt();
    });
    lua.set("returned", false);
    try {
      lua.run_string("begin() deep(x) returned = true");
    } catch (const ScriptError&) {
      stopped = !lua.get("returned").boolean();
    }
    stops.join();
    try {
      lua.run_string("");  // meets what came late
    } catch (const ScriptError&) {
    }
  }
  CHECK(stopped);
  CHECK(lua.run_string("return deep(x):equal(x)")[0].boolean());
}

TEST_CASE("compiled functions under a limit of tensor memory") {
  // A call gives half of what there may be, which is garbage at the next one.
  Interpreter::Options options;
  options.tensor_bytes = 3 * kMiB;
  Interpreter lua(options);
  lua.run_string(R"(
    ml = require 'moonlet'
    ml.set_grad_enabled(false)
    total, x = ml.zeros(4), ml.ones(384, 512)
    f = ml.compile(function(v)
      total:add_(1)
      return v:cumsum(1), v:cumsum(2)
    end)
    for _ = 1, 3 do f(x) end)");
  // What a call writes, it writes once.
  lua.run_string("for _ = 1, 40 do f(x) end");
  CHECK(lua.run_string("return total[1]:item()")[0].number() == 43);
  CHECK(lua.run_string("return tonumber(f:explain():match 'run (%d+) time')")[0].integer() == 41);
  // What is in use is not.
  check_limit(lua, Limit::TensorBytes, "local all = {} while true do all[#all + 1] = f(x) end");
  lua.run_string("collectgarbage() f(x)");
}

TEST_CASE("finalizers that run in the midst of a plan may call the function") {
  Interpreter::Options options;
  Interpreter lua(options);
  lua.run_string(R"(
    ml = require 'moonlet'
    calls = 0
    x = ml.ones(8)
    f = ml.compile(function(v) return v * 2 + 1 end)
    for _ = 1, 4 do f(x) end
    local function make()
      setmetatable({}, { __gc = function()
        calls = calls + 1
        assert(f(x)[1]:item() == 3)
        if calls < 200 then make() end
      end })
    end
    make()
    for _ = 1, 2000 do
      assert(f(x)[1]:item() == 3)
      if _ % 20 == 0 then collectgarbage() end
    end)");
  CHECK(lua.run_string("return calls")[0].integer() > 10);
}

namespace {

// Compiles and trains, in one source; gives the bits of what comes out.
const char* const kTrains = R"(
  local ml = require 'moonlet'
  ml.manual_seed(5)
  local net = ml.nn.Sequential(ml.nn.Linear(6, 12), ml.nn.Tanh(), ml.nn.LayerNorm(12), ml.nn.Linear(12, 3))
  local opt = ml.optim.Adam(net:parameters(), { lr = 0.01 })
  local forward = ml.compile(net)
  local step = ml.compile(function(x, y)
    opt:zero_grad()
    local loss = ml.cross_entropy(net(x), y)
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  local out = {}
  for i = 1, 12 do
    local x, y = ml.randn(i % 4 == 0 and 5 or 8, 6), ml.randint(3, { i % 4 == 0 and 5 or 8 })
    out[#out + 1] = step(x, y)
    net:zero_grad()
    forward(x):sum():backward()
    out[#out + 1] = net[1].weight.grad:sum()
  end
  assert(step:explain():find 'run %d+ time')
  return ml.stack(out))";

std::vector<float> train() {
  Interpreter lua;
  const Tensor t = lua.run_string(kTrains)[0].tensor();
  const auto* data = t.data<float>();
  return {data, data + t.numel()};
}

}  // namespace

TEST_CASE("interpreters compile and run the same source on threads of their own at once") {
  const std::vector<float> expected = train();
  REQUIRE(expected.size() == 24);
  std::vector<std::vector<float>> found(4);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (auto& each : found) threads.emplace_back([&each] { each = train(); });
    for (std::thread& each : threads) each.join();
    for (const auto& each : found) CHECK(each == expected);
  }
}
