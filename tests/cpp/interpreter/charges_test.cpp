// tests/cpp/interpreter/charges_test.cpp: what is charged to an interpreter with limits beside its
// storages, who is credited for it, and what its scripts see of memory that was used before.
#include "tests/cpp/catch2.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "interp/embed/moonlet.h"
#include "tensor/memory/budget.h"
#include "tensor/memory/free_list.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Interpreter::Options limited(int64_t tensor_mib) {
  Interpreter::Options options;
  options.tensor_bytes = tensor_mib * kMiB;
  return options;
}

// Takes from a budget on this thread for a scope.
class Paying {
 public:
  explicit Paying(memory::Budget* budget) { memory::switch_account(budget, nullptr); }
  ~Paying() { memory::switch_account(nullptr, nullptr); }
  Paying(const Paying&) = delete;
  Paying& operator=(const Paying&) = delete;
};

void check_exceeds(Interpreter& lua, const char* code) {
  INFO(code);
  try {
    lua.run_string(code, "s");
    FAIL("no limit was passed");
  } catch (const LimitExceeded& e) {
    CHECK(e.limit() == Limit::TensorBytes);
  }
  lua.run_string("kept = nil collectgarbage()");
}

}  // namespace

TEST_CASE("small blocks are charged to who runs and credited to who paid") {
  auto* const budget = new memory::Budget(kMiB);
  const int64_t none = budget->used();
  void* block = nullptr;
  {
    const Paying paying(budget);
    block = memory::SmallBlocks::get(100);
  }
  CHECK(budget->used() >= none + 100);
  SECTION("on the same thread") { memory::SmallBlocks::put(block, 100); }
  SECTION("on another one") {
    std::thread other([&] { memory::SmallBlocks::put(block, 100); });
    other.join();
  }
  SECTION("while another budget pays") {
    auto* const second = new memory::Budget(kMiB);
    {
      const Paying paying(second);
      memory::SmallBlocks::put(block, 100);
    }
    CHECK(second->used() == none);
    second->release();
  }
  CHECK(budget->used() == none);
  budget->release();
}

TEST_CASE("a budget ends with the last that was charged to it") {
  auto* const budget = new memory::Budget(kMiB);
  void *small = nullptr, *large = nullptr;
  {
    const Paying paying(budget);
    small = memory::SmallBlocks::get(1);
    large = memory::SmallBlocks::get(100'000);
  }
  budget->release();
  memory::SmallBlocks::put(large, 100'000);
  memory::SmallBlocks::put(small, 1);  // AddressSanitizer sees what is used after its end
}

TEST_CASE("blocks and growing texts beyond a budget") {
  auto* const budget = new memory::Budget(kMiB);
  const int64_t none = budget->used();
  {
    const Paying paying(budget);
    std::vector<void*> held;
    CHECK_THROWS_AS(
        [&] {
          for (;;) held.push_back(memory::SmallBlocks::get(64));
        }(),
        memory::BudgetExceeded);
    CHECK(static_cast<int64_t>(held.size()) * 64 > kMiB / 4);
    {
      const memory::Overdraft unbounded;
      held.push_back(memory::SmallBlocks::get(64));
    }
    CHECK_THROWS_AS(memory::SmallBlocks::get(1000), memory::BudgetExceeded);
    for (void* block : held) memory::SmallBlocks::put(block, 64);
    memory::Growth text;
    text.reach(100'000);
    text.reach(400'000);
    CHECK_THROWS_AS(text.reach(2'000'000), memory::BudgetExceeded);
    CHECK(*memory::make_shared<const int>(7) == 7);
  }
  CHECK(budget->used() == none);
  budget->release();
}

TEST_CASE("the tape and the tensors themselves count, and are credited when they end") {
  Interpreter lua(limited(8));
  lua.run_string("ml = require 'moonlet'");
  for (int round = 0; round < 3; ++round) {
    check_exceeds(lua, "kept = ml.ones{1, requires_grad = true} while true do kept = kept + 1 end");
    check_exceeds(lua, "kept = ml.ones{4, requires_grad = true} + 0 while true do kept[1] = 2 end");
    check_exceeds(lua, "kept = {} local x = ml.ones(4) for i = 1, 1e9 do kept[i] = x[1] end");
    check_exceeds(lua, "kept = {} for i = 1, 1e9 do kept[i] = ml.zeros(0) end");
    check_exceeds(lua, "return ml.ones(1):expand(1 << 22):unbind(1)");
  }
  // What has become garbage is collected before a limit is said to be passed.
  lua.run_string("for i = 1, 100000 do local x = ml.ones(1)[1] end");
  lua.run_string(
      "local x = ml.ones{1, requires_grad = true} "
      "for i = 1, 100 do local y = x for j = 1, 500 do y = y + 1 end end");
  lua.run_string("for i = 1, 200 do ml.ones(1):expand(5000):unbind(1) end");
}

TEST_CASE("a change in place at the limit is made once, with its history") {
  Interpreter lua(limited(4));
  lua.run_string("ml = require 'moonlet'");
  for (const char* change : {"y:add_(1)", "y[1] = y[1] + 1", "y:narrow(1, 1, 1):add_(1)"}) {
    INFO(change);
    CHECK_THROWS_AS(lua.run_string(std::string("y = ml.zeros{1, requires_grad = true} + 0 n = 0 "
                                               "while true do local garbage = ml.ones(20) ") +
                                   change + " n = n + 1 end"),
                    LimitExceeded);
    // There is no memory for an op.
    const float value = *lua.get("y").tensor().data<float>();
    const auto count = static_cast<float>(lua.get("n").integer());
    CHECK(count > 100);
    CHECK((value == count || value == count + 1));
    lua.run_string("y = nil collectgarbage()");
  }
}

TEST_CASE("what the host holds stays charged, and is credited on any thread") {
  Interpreter lua(limited(4));
  lua.run_string("ml = require 'moonlet'");
  std::vector<Tensor> held;
  try {
    for (;;) held.push_back(lua.run_string("return ml.ones(1)")[0].tensor());
  } catch (const LimitExceeded&) {
  }
  CHECK(held.size() > 1000);
  CHECK_THROWS_AS(lua.run_string("return ml.ones(100000)"), LimitExceeded);
  std::thread other([&] { held.clear(); });
  other.join();
  CHECK(lua.run_string("return ml.ones(500000):sum():item()")[0].number() == 500000);
}

TEST_CASE("a graph that outlives its interpreter is freed") {
  Tensor y;
  {
    Interpreter lua(limited(8));
    y = lua.run_string(
               "local ml = require 'moonlet' local y = ml.ones{1, requires_grad = true} "
               "for i = 1, 1000 do y = y + 1 end return y")[0]
            .tensor();
  }
  CHECK(y.requires_grad());
  y = Tensor();
}

TEST_CASE("scripts under limits do not see what memory held") {
  for (const size_t size : {100, 1000, 20'000, 200'000}) {
    std::vector<char*> blocks(100);
    for (char*& block : blocks) {
      block = static_cast<char*>(std::malloc(size));
      std::memset(block, 'S', size);
    }
    for (char* block : blocks) std::free(block);
  }
  Interpreter before;
  before.run_string(
      "local ml = require 'moonlet' for _, n in ipairs{100, 1000, 20000, 200000} do "
      "for i = 1, 20 do ml.full({n}, 83, {dtype = 'uint8'}) end end collectgarbage()");
  Interpreter::Options options;
  options.wall_time = 60s;  // any limit
  Interpreter lua(options);
  lua.run_string(R"(
    local ml = require 'moonlet'
    local o = {dtype = 'uint8'}
    for _, n in ipairs{100, 1000, 20000, 200000} do
      for i = 1, 10 do
        local x = ml.zeros(1, o)
        for name, made in pairs{
          empty = ml.empty(n, o), like = ml.empty_like(ml.zeros(n, o)), new = x:new_empty{n},
          strided = ml.empty_strided({n}, {1}, o), resized = x:clone():resize_(n),
          of_samples = ml.func.vmap(function(y) return ml.empty_like(y) end)(ml.zeros(2, n, o)),
          format = ml.empty{1, 2, 2, n // 4, dtype = 'uint8', memory_format = 'channels_last'},
        } do
          assert(not made:ne(0):any():item(), name .. ' of ' .. n)
        end
      end
    end)");
}

TEST_CASE("a factorization that takes long ends with its run") {
  Interpreter::Options options;
  options.wall_time = 200ms;
  Interpreter lua(options);
  for (const char* code :
       {"ml.linalg.eig(ml.randn(900, 900))", "ml.linalg.svd(ml.randn(1200, 1200))",
        "while true do pcall(ml.linalg.svd, ml.randn(900, 900)) end"}) {
    INFO(code);
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(lua.run_string(std::string("ml = require 'moonlet' ") + code), LimitExceeded);
    CHECK(std::chrono::steady_clock::now() - start < 30s);
  }
  // What is computed on a thread of its own is the same, and so are errors.
  Interpreter free;
  free.run_string(R"(
    local ml = require 'moonlet'
    local x = ml.randn(600, 600, {dtype = ml.float64})
    local u, s, vh = ml.linalg.svd(x)
    assert((u * s):mm(vh):allclose(x, {atol = 1e-8}))
    assert(x:inverse():mm(x):allclose(ml.eye(600, {dtype = ml.float64}), {atol = 1e-6}))
    local ok, message = pcall(ml.linalg.cholesky, -ml.eye(700))
    assert(not ok and message:find 'not positive', message)
    local to = ml.empty(600, {dtype = ml.float64})
    assert(ml.linalg.svdvals(x, {out = to}) == to and to:allclose(s)))");
}
