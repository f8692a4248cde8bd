// tests/cpp/interpreter/interpreter_test.cpp: several interpreters in one process: what they do not
// see of each other on one thread, moving between threads, shared leaves with hooks.
#include "tests/cpp/catch2.h"

#include <atomic>
#include <bit>
#include <set>
#include <thread>
#include <vector>

#include "autograd/ops_arithmetic.h"
#include "autograd/ops_create.h"
#include "autograd/ops_math.h"
#include "autograd/ops_reduce.h"
#include "autograd/tape.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/embed/moonlet.h"
#include "lua.hpp"
#include "tensor/runtime/random_generator.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

bool recording(Interpreter& lua) {
  return lua.run_string("return require 'moonlet'.is_grad_enabled()")[0].boolean();
}

int64_t seed_of(Interpreter& lua) {
  return lua.run_string("return require 'moonlet'.default_generator:initial_seed()")[0].integer();
}

Tensor leaf() {
  Tensor w = ones({4}, {});
  set_requires_grad(w, true);
  return w;
}

// An interpreter with global `ml`, and `w` a tensor of the host.
struct Script : Interpreter {
  explicit Script(const Tensor& w = {}) {
    run_string("ml = require 'moonlet'");
    set("w", w);
  }
};

}  // namespace

TEST_CASE("interpreters on one thread do not see each other's state") {
  Interpreter a, b;
  a.run_string("require 'moonlet'.set_grad_enabled(false)");
  CHECK_FALSE(recording(a));
  CHECK(recording(b));
  CHECK(grad_enabled());
  set_grad_enabled(false);
  CHECK(recording(b));
  set_grad_enabled(true);
  a.run_string("require 'moonlet'.manual_seed(3)");
  CHECK(seed_of(a) == 3);
  a.run_string("require 'moonlet'.set_float32_matmul_precision 'high'");
  const auto precision = [](Interpreter& lua) {
    return lua.run_string("return require 'moonlet'.get_float32_matmul_precision()")[0].string();
  };
  CHECK(precision(a) == "high");
  CHECK(precision(b) == "highest");
  CHECK(seed_of(b) != 3);
  a.run_string("require 'moonlet'.backends.cudnn.benchmark = true");
  const auto times = [](Interpreter& lua) {
    return lua.run_string("return require 'moonlet'.backends.cudnn.benchmark")[0].boolean();
  };
  CHECK(times(a));
  CHECK_FALSE(times(b));
}

// A script can choose the bits of a complex number, and a C module may hold any bytes.
TEST_CASE("no userdata with chosen bytes is taken for a tensor") {
  Interpreter lua;
  lua.with_state([](lua_State* L) {
    luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
    const auto mark = std::bit_cast<double>(binding::TensorCell::kMark);
    binding::push_complex(L, {0, mark});
    CHECK(binding::tensor_cell(L, -1) == nullptr);
    binding::push_complex(L, {mark, mark});
    CHECK(binding::tensor_cell(L, -1) == nullptr);
    auto* bytes = static_cast<uint64_t*>(lua_newuserdatauv(L, sizeof(binding::TensorCell), 0));
    bytes[0] = 1, bytes[1] = ~binding::TensorCell::kMark;
    CHECK(binding::tensor_cell(L, -1) == nullptr);
    lua_pushlightuserdata(L, bytes);
    CHECK(binding::tensor_cell(L, -1) == nullptr);
    push_tensor(L, ones({2}));
    CHECK(binding::tensor_cell(L, -1) != nullptr);
    lua_settop(L, 0);
  });
  CHECK(binding::TensorCell::kMark != 0);
}

// Memory of a collected tensor is given out again, also for a userdata that does not write all of
// it.
TEST_CASE("a collected tensor leaves no mark behind") {
  constexpr int kCount = 200;
  Interpreter lua;
  lua.with_state([](lua_State* L) {
    luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
    lua_settop(L, 0);
    luaL_checkstack(L, 2 * kCount, "tensors");
    std::set<const void*> cells;
    for (int i = 0; i < kCount; ++i) {
      push_tensor(L, ones({2}));
      cells.insert(lua_touserdata(L, -1));
    }
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    lua_gc(L, LUA_GCCOLLECT);
    int again = 0;
    for (int i = 0; i < kCount; ++i) {
      again += cells.count(lua_newuserdatauv(L, sizeof(binding::TensorCell), 0)) != 0;
      CHECK(binding::tensor_cell(L, -1) == nullptr);
    }
    CHECK(again > 0);
    lua_settop(L, 0);
  });
  CHECK((binding::TensorCell::kMark & 0xff) > 2 * kDTypeCount);
}

TEST_CASE("a state travels with its interpreter between threads") {
  Interpreter lua;
  std::thread([&] {
    lua.run_string("ml = require 'moonlet' ml.set_grad_enabled(false) ml.manual_seed(11)");
  }).join();
  CHECK_FALSE(recording(lua));
  CHECK(seed_of(lua) == 11);
  CHECK(grad_enabled());
  std::thread([&] { CHECK_FALSE(recording(lua)); }).join();
}

TEST_CASE("unseeded interpreters, generators and threads have different numbers") {
  std::set<int64_t> seeds;
  for (int i = 0; i < 4; ++i) {
    Script lua;
    seeds.insert(seed_of(lua));
    seeds.insert(lua.run_string("return ml.Generator():initial_seed()")[0].integer());
    seeds.insert(lua.run_string("return ml.Generator():initial_seed()")[0].integer());
    std::thread([&] {
      seeds.insert(static_cast<int64_t>(default_generator().initial_seed()));
    }).join();
  }
  CHECK(seeds.size() == 16);
  Script a, b;
  const char* code = "ml.manual_seed(5) return ml.randn(3):sum():item()";
  CHECK(a.run_string(code)[0].number() == b.run_string(code)[0].number());
}

TEST_CASE("a host function runs in the state of the script that calls it") {
  Script lua, other;
  const Tensor w = leaf();
  lua.register_function("record",
                        [&](const Values&) -> Values { return {exp(w).requires_grad()}; });
  CHECK(lua.run_string("return record()")[0].boolean());
  CHECK_FALSE(lua.run_string("return ml.no_grad(record)")[0].boolean());
  lua.register_function("from_other", [&](const Values&) -> Values { return {recording(other)}; });
  CHECK(lua.run_string("return ml.no_grad(from_other)")[0].boolean());
  lua.register_function("again", [&](const Values&) -> Values {
    return {lua.run_string("return ml.is_grad_enabled()")[0]};
  });
  CHECK_FALSE(lua.run_string("return ml.no_grad(again)")[0].boolean());
  // In through another interpreter: the state is the one the script has left.
  other.register_function("into", [&](const Values&) -> Values { return {recording(lua)}; });
  lua.register_function(
      "around", [&](const Values&) -> Values { return {other.run_string("return into()")[0]}; });
  CHECK_FALSE(lua.run_string("return ml.no_grad(around)")[0].boolean());
  CHECK(recording(lua));
  CHECK(grad_enabled());
}

TEST_CASE("an error leaves the states in order") {
  Script lua;
  CHECK(contains(message_of([&] { lua.run_string("ml.no_grad(function() error 'x' end)"); }), "x"));
  CHECK(recording(lua));
  lua.register_function("broken", [](const Values&) -> Values { throw Error("broken host"); });
  CHECK(contains(message_of([&] { lua.run_string("ml.no_grad(broken)"); }), "broken host"));
  CHECK(recording(lua));
  CHECK(grad_enabled());
}

TEST_CASE("coroutines that a host resumes keep their modes") {
  Script lua;
  lua.with_state([](lua_State* L) {
    lua_State* co = lua_newthread(L);
    REQUIRE(luaL_loadstring(co, R"(
      local _ <close> = ml.no_grad()
      coroutine.yield(ml.is_grad_enabled())
      return ml.is_grad_enabled())") == LUA_OK);
    int results = 0;
    CHECK(Interpreter::resume(L, co, 0, &results) == LUA_YIELD);
    CHECK_FALSE(lua_toboolean(co, -1));
    CHECK(grad_enabled());
    lua_pop(co, results);
    CHECK(Interpreter::resume(L, co, 0, &results) == LUA_OK);
    CHECK_FALSE(lua_toboolean(co, -1));
    CHECK(grad_enabled());
  });
  CHECK(contains(message_of([&] { lua.with_state([](lua_State* L) { luaL_error(L, "out"); }); }),
                 "out"));
}

TEST_CASE("finalizers at the end run in the interpreter's state") {
  bool seen = true;
  Interpreter outer;
  {
    Script lua;
    lua.register_function("note", [&](const Values& v) -> Values {
      seen = v[0].boolean();
      return {};
    });
    lua.run_string(R"(
      ml.set_grad_enabled(false)
      local is_enabled, note = ml.is_grad_enabled, note
      last = setmetatable({}, {__gc = function() pcall(note, is_enabled()) end})
      last = setmetatable({}, {__gc = function() mode = is_enabled() note(mode) end}))");
  }
  CHECK_FALSE(seen);
  CHECK(grad_enabled());
}

TEST_CASE("the last reference to a tensor with a hook may go on another thread") {
  Script lua;
  for (int i = 0; i < 20; ++i) {
    Tensor w = leaf();
    Tensor y;
    lua.set("w", w);
    y = lua.run_string(
               "w:register_hook(function(g) return g * 2 end)"
               "local h = w * 2 h:register_hook(function(g) return h:detach() end)"
               "w = nil return h:sum()")[0]
            .tensor();
    std::thread([y = std::move(y), w = std::move(w)]() mutable {
      y = Tensor();
      w = Tensor();
    }).join();
    lua.run_string("collectgarbage()");
  }
  CHECK(lua.run_string("return 1")[0].integer() == 1);
}

TEST_CASE("a hook runs where it was registered and is an error elsewhere") {
  const Tensor w = leaf();
  Script a(w), b(w);
  a.run_string("calls = 0 handle = w:register_hook(function(g) calls = calls + 1 return g * 3 end)",
               "a.lua");
  a.run_string("w:sum():backward()");
  CHECK(grad_of(w).data<float>()[0] == 3);
  const std::string wrong = message_of([&] { b.run_string("w:sum():backward()"); });
  CHECK(contains(wrong, "a.lua:1"));
  CHECK(contains(wrong, "does not run on this thread"));
  CHECK(contains(message_of([&] { backward({sum(w)}, {Tensor()}); }), "a.lua:1"));
  // Inside a call from its interpreter another one may reach it.
  a.register_function("train_b", [&](const Values&) -> Values {
    b.run_string("w:sum():backward()");
    return {};
  });
  a.run_string("train_b()");
  CHECK(a.get("calls").integer() == 2);
  CHECK(grad_of(w).data<float>()[0] == 6);
  a.run_string("handle.remove()");
  b.run_string("w:sum():backward()");
  CHECK(grad_of(w).data<float>()[0] == 7);
  a.run_string("w:register_hook(function() error 'from a' end)");
  CHECK(contains(message_of([&] { a.run_string("train_b()"); }), "from a"));
  CHECK(recording(b));
}

TEST_CASE("hooks end with their interpreter") {
  const Tensor w = leaf();
  {
    Script a(w);
    a.run_string("w:register_hook(function(g) return g * 3 end)");
  }
  backward({sum(w)}, {Tensor()});
  CHECK(grad_of(w).data<float>()[0] == 1);
}

namespace {
// A result with a function of the script's behind it.
constexpr const char* kTriple = R"(
  local f = ml.autograd.Function {
    name = "Triple",
    forward = function(ctx, x) ctx.by = 3 return x * 3 end,
    backward = function(ctx, g)
      calls = (calls or 0) + 1
      if fails then error "from a" end
      return g * ctx.by
    end }
  y = f(w) return y)";
}  // namespace

TEST_CASE("a script's function runs backward in its interpreter and is an error elsewhere") {
  const Tensor w = leaf();
  Script a(w), b;
  const Tensor y = a.run_string(kTriple, "a.lua")[0].tensor();
  CHECK(contains(message_of([&] { backward({sum(y)}, {Tensor()}, true); }),
                 "TripleBackward belongs to an interpreter that does not run on this thread"));
  b.set("y", y);
  const char* train = "y:sum():backward { retain_graph = true }";
  CHECK(contains(message_of([&] { b.run_string(train); }), "does not run on this thread"));
  a.register_function("train_b", [&](const Values&) -> Values {
    b.run_string(train);
    return {};
  });
  a.run_string("train_b()");
  CHECK(a.get("calls").integer() == 1);
  CHECK(grad_of(w).data<float>()[0] == 3);
  a.run_string("fails = true");
  const std::string wrong = message_of([&] { a.run_string("train_b()"); });
  CHECK(contains(wrong, "from a (its forward was called at a.lua:"));
  CHECK(recording(a));
  CHECK(recording(b));
}

TEST_CASE("what the tape holds of a script may go on another thread, or outlive it") {
  const Tensor w = leaf();
  Tensor kept;
  {
    Script a(w);
    for (int i = 0; i < 20; ++i) {
      Tensor y = a.run_string(kTriple)[0].tensor();
      a.run_string("y = nil collectgarbage()");
      std::thread([y = std::move(y)]() mutable { y = Tensor(); }).join();
    }
    kept = a.run_string(kTriple)[0].tensor();
    const Tensor packed =
        a.run_string(
             "return ml.autograd.graph.saved_tensors_hooks(function(t) return { t } end,"
             "  function(kept) return kept[1] end, function() return w:exp() end)")[0]
            .tensor();
    CHECK(contains(message_of([&] { backward({sum(packed)}, {Tensor()}); }),
                   "saved_tensors_hooks: unpack belongs to an interpreter"));
  }
  CHECK(contains(message_of([&] { backward({sum(kept)}, {Tensor()}); }),
                 "belongs to an interpreter that was closed"));
}

TEST_CASE("a held function may be dropped on another thread while its interpreter runs") {
  Script lua;
  std::vector<Value> held;
  for (int i = 0; i < 100; ++i) held.push_back(lua.run_string("return {}, function() end")[1]);
  std::thread dropper([&] { held.clear(); });
  for (int i = 0; i < 100; ++i) lua.run_string("local t = {} for i = 1, 100 do t[i] = {} end");
  dropper.join();
  CHECK(lua.run_string("return 1")[0].integer() == 1);
}

TEST_CASE("interpreters train at once on threads with hooks of their own") {
  const Tensor shared = ones({8}, {});
  std::atomic<int> good{0};
  std::vector<Tensor> dropped(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Script lua;
      lua.set("shared", shared);
      const Values results = lua.run_string(R"(
        local total = 0
        local w = ml.ones{8, requires_grad = true}
        w:register_hook(function(g) total = total + 1 return g * 0.5 end)
        local last
        for i = 1, 50 do
          local h = w * ml.rand(8) + w:detach()
          h:register_hook(function(g) assert(h.requires_grad) return g end)
          local loss = (h * shared):sum()
          if i % 5 ~= 0 then loss:backward() end
          last = loss
          if i % 10 == 0 then ml.no_grad(function() w:sub_(w.grad * 0.01) end) collectgarbage() end
        end
        return total, last)");
      dropped[t] = results[1].tensor();
      if (results[0].integer() == 40) good.fetch_add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 4);
  dropped.clear();
}

TEST_CASE("interpreters share a leaf: they add to its gradient, read it and clear it at once") {
  Tensor leaf = ones({8}, {});
  set_requires_grad(leaf, true);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Script lua;
      lua.set("w", leaf);
      lua.set("clears", t == 0);
      lua.run_string(R"(
        for i = 1, 200 do
          local loss = (w * i):sum() + (w * w):sum()
          loss:backward()
          local g = w.grad
          assert(g == nil or g.shape[1] == 8)
          if clears and i % 3 == 0 then w.grad = nil end
        end)");
      good.fetch_add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 4);
}

TEST_CASE("a tensor that goes to the host and back is the script's own value") {
  Script lua, other;
  lua.run_string("mine = ml.ones(3); marks = {[mine] = true}");
  const Tensor held = lua.get("mine").tensor();
  lua.set("back", held);
  CHECK(lua.run_string("return rawequal(mine, back) and marks[back]")[0].boolean());
  std::vector<Tensor> kept;
  lua.register_function("pass", [&](const Values& values) {
    kept.push_back(values.at(0).tensor());
    return Values{kept.back()};
  });
  lua.register_function("again", [&](const Values&) { return Values{kept.back()}; });
  CHECK(lua.run_string(
               "local x = ml.zeros(2); return rawequal(pass(x), x) and rawequal(again(), x)")[0]
            .boolean());
  // When the script has let go of it, it comes as a new value, and each interpreter has its own.
  lua.run_string("mine, back, marks = nil, nil, nil; collectgarbage(); collectgarbage()");
  lua.set("back", held);
  other.set("back", held);
  lua.set("twin", held);
  CHECK(lua.run_string("return rawequal(back, twin) and back:sum():item() == 3")[0].boolean());
  CHECK(other.run_string("return back:sum():item() == 3")[0].boolean());
}

TEST_CASE("an error inside the standard library has the script's line for a host") {
  Script lua;
  const std::string message = message_of([&] {
    lua.run_string("local nn = ml.nn\nlocal v = nn.utils.parameters_to_vector{3}\nreturn v",
                   "=chunk");
  });
  CHECK(contains(message, "chunk:2: "));
}

TEST_CASE("interpreters define ops of one name differently") {
  const auto define = [](Interpreter& lua, const char* factor) {
    lua.run_string(
        text("ml = require 'moonlet' ml.ops.define { 'own_op(Tensor x) -> Tensor', "
             "forward = function(x) return x * ",
             factor, " end }"));
  };
  Interpreter three;
  {
    Interpreter two;
    define(two, "2");
    define(three, "3");
    CHECK(two.run_string("return ml.own_op(ml.ones(1)):item()")[0].number() == 2);
    // A finalizer that runs when the interpreter closes finds the op, or an error.
    two.run_string(
        "x = ml.ones(1) kept = setmetatable({}, {__gc = function() pcall(ml.own_op, x) end})");
  }
  CHECK(three.run_string("return ml.own_op(ml.ones(1)):item()")[0].number() == 3);
  CHECK(three.run_string("return ml.ops.info 'own_op'.kind")[0].string() == "composite");
  Interpreter none;
  CHECK_THROWS(none.run_string("return require 'moonlet'.own_op"));
}
