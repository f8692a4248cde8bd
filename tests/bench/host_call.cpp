// tests/bench/host_call.cpp: the time of calls between a host and a script, in nanoseconds: the
// best of several rounds. Nothing is asserted.
// usage: host_call [CALLS [PART]], where only what has PART in its name is measured
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "interp/embed/moonlet.h"

namespace {

int64_t calls = 200'000;
std::string part;

template <class F>
void measure(const char* what, F&& call) {
  if (std::string(what).find(part) == std::string::npos) return;
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  for (int round = 0; round < 10; ++round) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call(i);
    const double time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, time / static_cast<double>(calls));
  }
  std::printf("%-40s %8.1f ns\n", what, best);
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
  std::printf("(sum %g)\n", sum);
  return 0;
}
