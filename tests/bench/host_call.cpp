// tests/bench/host_call.cpp: the time of calls between a host and a script, in nanoseconds: the
// best of many rounds. Nothing is asserted.
// usage: host_call [CALLS [PART]], where only what has PART in its name is measured
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "interp/embed/class.h"
#include "interp/embed/ops.h"

namespace {

int64_t calls = 200'000;
std::string part;

template <class F>
void measure(const char* what, F&& call, int64_t turns = 1000) {
  if (std::string(what).find(part) == std::string::npos) return;
  using Clock = std::chrono::steady_clock;
  // Short rounds, of which some are undisturbed on a loaded machine.
  double best = 1e18;
  for (int64_t round = 0; round < std::max<int64_t>(10, calls / turns); ++round) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < turns; ++i) call(i);
    const double time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, time / static_cast<double>(turns));
  }
  std::printf("%-40s %8.1f ns\n", what, best);
}

// The time of `code` in a loop of a script, without that of the empty loop.
void measure_script(moonlet::Interpreter& lua, const char* what, const std::string& code) {
  if (std::string(what).find(part) == std::string::npos) return;
  constexpr int kTurns = 1000;
  lua.run_string("function loop(n) for i = 1, n do " + code +
                 " end end function empty(n) for i = 1, n do end end");
  const auto loop = lua.get<moonlet::TypedFunction<void(int)>>("loop");
  const auto empty = lua.get<moonlet::TypedFunction<void(int)>>("empty");
  using Clock = std::chrono::steady_clock;
  double best = 1e18, best_empty = 1e18;
  for (int64_t round = 0; round < std::max<int64_t>(10, calls / kTurns); ++round) {
    const Clock::time_point start = Clock::now();
    loop(kTurns);
    const Clock::time_point middle = Clock::now();
    empty(kTurns);
    const Clock::time_point end = Clock::now();
    best = std::min(best, std::chrono::duration<double, std::nano>(middle - start).count());
    best_empty =
        std::min(best_empty, std::chrono::duration<double, std::nano>(end - middle).count());
  }
  best = (best - best_empty) / kTurns;
  std::printf("%-40s %8.1f ns\n", what, best);
}

struct Point {
  double x = 0, y = 0, z = 0;
};

}  // namespace

template <>
struct moonlet::Convert<Point> {
  static std::string name() { return "table {x, y, z}"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_table(index) ? Fit::Converted : Fit::None;
  }
  static Point get(Stack& stack, int index) {
    if (!stack.is_table(index)) stack.refuse(index, name());
    return {stack.field<double>(index, "x"), stack.field<double>(index, "y"),
            stack.field<double>(index, "z")};
  }
  static void push(Stack& stack, const Point& value) {
    stack.push_table(0, 3);
    stack.set_field(-1, "x", value.x);
    stack.set_field(-1, "y", value.y);
    stack.set_field(-1, "z", value.z);
  }
};

namespace {

struct Synth {
  explicit Synth(int v) : voices(v) {}
  double note(double pitch) { return gain_ * pitch; }
  double gain() const { return gain_; }
  void set_gain(double gain) { gain_ = gain; }
  int voices;
  double gain_ = 0.5;
};

void measure_typed(moonlet::Interpreter& lua, double& sum) {
  using moonlet::Table;
  using moonlet::Tensor;
  using moonlet::TypedFunction;
  lua.run_string(
      "local t = {x = 1.5, y = 2, z = 3}  config = t "
      "function point(a) return {x = a, y = a, z = a} end");
  const auto same = lua.get<TypedFunction<double(double)>>("same");
  measure("typed function, a number", [&](int64_t i) { sum += same(static_cast<double>(i)); });
  const auto text = lua.get<TypedFunction<std::string(std::string_view)>>("same");
  measure("typed function, a string",
          [&](int64_t) { sum += static_cast<double>(text("abcdefghijklmnopqrstuvwxyz").size()); });
  const Table config = lua.get<Table>("config");
  measure("typed field of a table", [&](int64_t) { sum += config.get<double>("x"); });
  const auto point = lua.get<TypedFunction<Point(double)>>("point");
  measure("typed result with three fields",
          [&](int64_t i) { sum += point(static_cast<double>(i)).y; });
  const auto pass = lua.get<TypedFunction<void(Tensor)>>("same");
  float data[4] = {1, 2, 3, 4};
  measure("new tensor handed over",
          [&](int64_t) { pass(moonlet::from_blob(data, {4}, moonlet::DType::Float32)); });
  measure("(from_blob alone)",
          [&](int64_t) { moonlet::from_blob(data, {4}, moonlet::DType::Float32); });
  const Tensor held = moonlet::ones({4});
  measure("held tensor handed over", [&](int64_t) { pass(held); });
}

void measure_classes(moonlet::Interpreter& lua) {
  lua.register_function("typed", [](double x) { return x; });
  lua.register_function("read", [](const Point& point) { return point.x; });
  lua.register_function("get_field", [](const moonlet::Table& t) { return t.get<double>("x"); });
  lua.bind<Synth>("Synth")
      .constructor<int>()
      .method("note", &Synth::note)
      .property("gain", &Synth::gain, &Synth::set_gain)
      .property("voices", &Synth::voices);
  lua.run_string("s = Synth(1)");
  measure_script(lua, "host function with a number", "typed(0.5)");
  measure_script(lua, "host function, a table as a struct", "read(config)");
  measure_script(lua, "host function, a field of a table", "get_field(config)");
  measure_script(lua, "method", "s:note(60)");
  measure_script(lua, "property, read", "local x = s.gain");
  measure_script(lua, "property, written", "s.gain = 0.5");
  measure_script(lua, "data member, read", "local x = s.voices");
  measure_script(lua, "new object", "Synth(1)");
}

// A net as a host calls it: 4-16-3, a batch of 1.
void measure_net() {
  using moonlet::Tensor;
  moonlet::Interpreter lua;
  lua.run_string(
      "local ml = require 'moonlet' local nn = ml.nn "
      "local net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)):eval() "
      "ml.set_grad_enabled(false) "
      "function eager(x) return net(x) end compiled = ml.compile(eager)");
  const Tensor x = moonlet::ones({1, 4});
  for (const char* name : {"eager", "compiled"}) {
    const auto net = lua.get<moonlet::TypedFunction<Tensor(Tensor)>>(name);
    const std::string what = std::string("a small net, ") + name;
    measure(
        what.c_str(), [&](int64_t) { net(x); }, 50);
  }
}

void measure_limits(double& sum) {
  moonlet::Interpreter lua;
  lua.run_string("function same(x) return x end");
  const auto same = lua.get<moonlet::TypedFunction<double(double)>>("same");
  const auto call = [&](int64_t i) { sum += same(static_cast<double>(i)); };
  measure("(a number, without limits)", call);
  lua.set_limits({.wall_time = std::chrono::seconds(10)});
  measure("a number, wall_time of 10 s", call);
  lua.set_limits({.wall_time = std::chrono::milliseconds(10)});
  measure("a number, wall_time of 10 ms", call);
  lua.set_limits({.instructions = 1'000'000});
  measure("a number, instructions", call);
  lua.set_limits({});
  const moonlet::Function held = lua.get("same").function();
  measure("call_within 1 s, a number", [&](int64_t i) {
    sum += lua.call_within(std::chrono::seconds(1), held, static_cast<double>(i))[0].number();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) calls = std::max<int64_t>(1, std::atoll(argv[1]));
  if (argc > 2) part = argv[2];
  moonlet::Interpreter lua;
  lua.run_string("function same(x) return x end  function pair(a, b) return a, b end");
  const moonlet::Function same = lua.get("same").function();
  const moonlet::Function pair = lua.get("pair").function();
  double sum = 0;
  measure("held function, a number",
          [&](int64_t i) { sum += same(static_cast<double>(i))[0].number(); });
  measure("held function, two numbers", [&](int64_t i) { sum += pair(i, 0.5)[1].number(); });
  measure("function by name, a number",
          [&](int64_t i) { sum += lua.call("same", static_cast<double>(i))[0].number(); });
  const std::string text = "some text of a moderate length";
  measure("held function, a string",
          [&](int64_t) { sum += static_cast<double>(same(text)[0].string().size()); });
  lua.register_function("host", [](const moonlet::Values& v) -> moonlet::Values { return v; });
  lua.run_string("function loop(n) local host = host for i = 1, n do host(0.5) end end");
  measure("host function, 1000 calls", [&](int64_t i) {
    if (i % 1000 == 0) lua.call("loop", 1000);
  });
  measure_typed(lua, sum);
  measure_classes(lua);
  measure_limits(sum);
  measure_net();
  std::printf("(sum %g)\n", sum);
  return 0;
}
