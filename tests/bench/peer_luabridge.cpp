// tests/bench/peer_luabridge.cpp: what host_call.cpp measures, by LuaBridge3, which is no part of
// the build:
//   c++ -std=c++20 -O2 -DNDEBUG -ILUABRIDGE3/Source peer_luabridge.cpp \
//     $(pkg-config --cflags --libs lua5.4-c++)
// usage: peer_luabridge [CALLS [PART]], as host_call
#include <lua.hpp>

#include <LuaBridge/LuaBridge.h>

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
void run(lua_State* L, const std::string& code) {
  if (luaL_dostring(L, code.c_str()) != LUA_OK) std::printf("%s\n", lua_tostring(L, -1));
}
void measure_script(lua_State* lua, const char* what, const std::string& code) {
  if (std::string(what).find(part) == std::string::npos) return;
  constexpr int kTurns = 1000;
  run(lua, "function loop(n) for i = 1, n do " + code +
               " end end function empty(n) for i = 1, n do end end");
  const luabridge::LuaRef loop = luabridge::getGlobal(lua, "loop");
  const luabridge::LuaRef empty = luabridge::getGlobal(lua, "empty");
  using Clock = std::chrono::steady_clock;
  double best = 1e18, best_empty = 1e18;
  for (int64_t round = 0; round < std::max<int64_t>(10, calls / kTurns); ++round) {
    const Clock::time_point start = Clock::now();
    static_cast<void>(loop.call<void>(kTurns));
    const Clock::time_point middle = Clock::now();
    static_cast<void>(empty.call<void>(kTurns));
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
  lua_State* lua = luaL_newstate();
  luaL_openlibs(lua);
  run(lua,
      "function same(x) return x end  function pair(a, b) return a, b end "
      "local t = {x = 1.5, y = 2, z = 3}  config = t "
      "function point(a) return {x = a, y = a, z = a} end");
  double sum = 0;
  {
    using luabridge::LuaRef;
    const LuaRef same = luabridge::getGlobal(lua, "same");
    measure("typed function, a number",
            [&](int64_t i) { sum += same.call<double>(static_cast<double>(i)).value(); });
    measure("typed function, a string", [&](int64_t) {
      sum += static_cast<double>(
          same.call<std::string>(std::string_view("abcdefghijklmnopqrstuvwxyz")).value().size());
    });
    const LuaRef config = luabridge::getGlobal(lua, "config");
    measure("typed field of a table", [&](int64_t) { sum += config["x"].unsafe_cast<double>(); });
    luabridge::getGlobalNamespace(lua)
        .addFunction(
            "typed", +[](double x) { return x; })
        .addFunction(
            "get_field", +[](const LuaRef& t) { return t["x"].unsafe_cast<double>(); })
        .beginClass<Synth>("Synth")
        .addConstructor<void (*)(int)>()
        .addFunction("note", &Synth::note)
        .addProperty("gain", &Synth::gain, &Synth::set_gain)
        .addProperty("voices", &Synth::voices, &Synth::voices)
        .endClass();
    run(lua, "s = Synth(1)");
    measure_script(lua, "host function with a number", "typed(0.5)");
    measure_script(lua, "host function, a field of a table", "get_field(config)");
    measure_script(lua, "method", "s:note(60)");
    measure_script(lua, "property, read", "local x = s.gain");
    measure_script(lua, "property, written", "s.gain = 0.5");
    measure_script(lua, "data member, read", "local x = s.voices");
    measure_script(lua, "new object", "Synth(1)");
  }
  lua_close(lua);
  std::printf("(sum %g)\n", sum);
  return 0;
}
