// tests/fuzz/read_one.cpp: a target of libFuzzer: files with any bytes for the reader of the kind
// that MOONLET_FUZZ_KIND names. Lines that Lua runs count as coverage beside that of the C++ code.
// usage: fuzz_KIND -max_len=4096 NEW_CORPUS tests/fuzz/corpus/KIND
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

#include "interp/embed/moonlet.h"
#include "lua.hpp"

namespace {

// libFuzzer looks at these after each input.
constexpr size_t kCounters = size_t{1} << 14;
__attribute__((section("__libfuzzer_extra_counters"))) uint8_t counters[kCounters];

// Counts the step from the line before to this one.
void count_line(lua_State* L, lua_Debug* ar) {
  static uint64_t before = 0;
  lua_getinfo(L, "Sl", ar);
  const auto source = reinterpret_cast<uintptr_t>(ar->source);
  const uint64_t here = (source ^ static_cast<uint64_t>(ar->currentline)) * 0x9E3779B97F4A7C15u;
  ++counters[((here >> 32) ^ (before >> 33)) % kCounters];
  before = here;
}

struct Target {
  moonlet::Interpreter lua;
  std::string path;

  Target() {
    const char* folder = std::getenv("TMPDIR");
    path = std::string(folder != nullptr ? folder : "/tmp") + "/moonlet-fuzz-" +
           std::to_string(::getpid()) + "." + MOONLET_FUZZ_KIND;
    lua.run_string("warn '@off'; package.path = '" MOONLET_FUZZ_FOLDER
                   "/?.lua;' .. package.path;"
                   "read_one = dofile('" MOONLET_FUZZ_FOLDER "/read_one.lua')");
    lua.with_state([](lua_State* L) { lua_sethook(L, count_line, LUA_MASKLINE, 0); });
  }
  ~Target() { std::remove(path.c_str()); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Target target;
  std::ofstream(target.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto wrong = target.lua.call("read_one", target.path, MOONLET_FUZZ_KIND);
  if (!wrong.empty() && !wrong[0].is_nil()) {
    std::fprintf(stderr, "%s\n", wrong[0].string().c_str());
    std::abort();
  }
  return 0;
}
