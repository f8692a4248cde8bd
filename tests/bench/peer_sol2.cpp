// tests/bench/peer_sol2.cpp: what host_call.cpp measures, by sol2, which is no part of the build:
//   c++ -std=c++20 -O2 -DNDEBUG -ISOL2/include peer_sol2.cpp $(pkg-config --cflags --libs
//   lua5.4-c++)
// usage: peer_sol2 [CALLS [PART]], as host_call
#define SOL_USING_CXX_LUA 1
#include <sol/sol.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {
int64_t calls = 200'000;
std::string part;
template <class F>
void measure(const char* what, F&& call) {
  if (std::string(what).find(part) == std::string::npos) return;
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kTurns = 1000;
  double best = 1e18;
  for (int64_t round = 0; round < std::max<int64_t>(10, calls / kTurns); ++round) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < kTurns; ++i) call(i);
    const double time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, time / kTurns);
  }
  std::printf("%-40s %8.1f ns\n", what, best);
}
void measure_script(sol::state& lua, const char* what, const std::string& code) {
  if (std::string(what).find(part) == std::string::npos) return;
  constexpr int kTurns = 1000;
  lua.script("function loop(n) for i = 1, n do " + code +
             " end end function empty(n) for i = 1, n do end end");
  const sol::function loop = lua["loop"], empty = lua["empty"];
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
  std::printf("%-40s %8.1f ns\n", what, (best - best_empty) / kTurns);
}
struct Synth {
  explicit Synth(int v) : voices(v) {}
  double note(double pitch) { return gain_ * pitch; }
  double gain() const { return gain_; }
  void set_gain(double gain) { gain_ = gain; }
  int voices;
  double gain_ = 0.5;
};
}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) calls = std::max<int64_t>(1, std::atoll(argv[1]));
  if (argc > 2) part = argv[2];
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  sol::state lua;
  lua.open_libraries();
  lua.script(
      "function same(x) return x end  function pair(a, b) return a, b end "
      "local t = {x = 1.5, y = 2, z = 3}  config = t "
      "function point(a) return {x = a, y = a, z = a} end");
  double sum = 0;
  const sol::unsafe_function same_u = lua["same"];
  measure("typed function, a number (unsafe)",
          [&](int64_t i) { sum += same_u.call<double>(static_cast<double>(i)); });
  const sol::protected_function same = lua["same"];
  measure("typed function, a number",
          [&](int64_t i) { sum += same(static_cast<double>(i)).get<double>(); });
  measure("typed function, a string", [&](int64_t) {
    sum += same(std::string_view("abcdefghijklmnopqrstuvwxyz")).get<std::string>().size();
  });
  const sol::table config = lua["config"];
  measure("typed field of a table", [&](int64_t) { sum += config.get<double>("x"); });
  const sol::protected_function point = lua["point"];
  const sol::unsafe_function point_u = lua["point"];
  measure("typed result with three fields", [&](int64_t i) {
    const sol::table t = point(static_cast<double>(i));
    sum += t.get<double>("x") + t.get<double>("y") + t.get<double>("z");
  });
  measure("typed result with three fields (unsafe)", [&](int64_t i) {
    const sol::table t = point_u(static_cast<double>(i));
    sum += t.get<double>("x") + t.get<double>("y") + t.get<double>("z");
  });
  lua.set_function("typed", [](double x) { return x; });
  lua.set_function("get_field", [](const sol::table& t) { return t.get<double>("x"); });
  lua.set_function("read", [](const sol::table& t) {
    return t.get<double>("x") + t.get<double>("y") + t.get<double>("z");
  });
  lua.new_usertype<Synth>("Synth", sol::constructors<Synth(int)>(), "note", &Synth::note, "gain",
                          sol::property(&Synth::gain, &Synth::set_gain), "voices", &Synth::voices);
  lua.script("s = Synth.new(1)");
  measure_script(lua, "host function with a number", "typed(0.5)");
  measure_script(lua, "host function, a table as a struct", "read(config)");
  measure_script(lua, "host function, a field of a table", "get_field(config)");
  measure_script(lua, "method", "s:note(60)");
  measure_script(lua, "property, read", "local x = s.gain");
  measure_script(lua, "property, written", "s.gain = 0.5");
  measure_script(lua, "data member, read", "local x = s.voices");
  measure_script(lua, "new object", "Synth.new(1)");
  std::printf("(sum %g)\n", sum);
}
