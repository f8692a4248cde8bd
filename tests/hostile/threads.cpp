// tests/hostile/threads.cpp: runs a script in several interpreters at once, each on a thread of its
// own, several times. usage: hostile-threads COUNT SCRIPT
// Prints what the script returned, as text, once if all runs agree; else ends with status 1.
//    or: hostile-threads LUA-MIB TENSOR-MIB MILLISECONDS SCRIPT
// Runs it once under these limits, 0 for none. Prints what came of it, whether the interpreter can
// be used afterwards, how long it took and how much memory the process has had at most.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "interp/embed/moonlet.h"

namespace {

constexpr int kRuns = 3;

std::string outcome(const char* script) {
  try {
    moonlet::Interpreter lua;
    const moonlet::Values results = lua.run_file(script);
    std::string out;
    for (const moonlet::Value& value : results) out += value.string() + "\n";
    return out;
  } catch (const std::exception& e) {
    return std::string("error: ") + e.what() + "\n";
  }
}

using Clock = std::chrono::steady_clock;

// What the process has had resident at most, in MiB.
long peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) / 1024;
  return 0;
}

int run_limited(char** argv) {
  moonlet::Interpreter::Options options;
  options.libraries.io = options.libraries.os = options.libraries.debug = false;
  options.libraries.package = false;
  options.lua_bytes = std::atoll(argv[1]) << 20;
  options.tensor_bytes = std::atoll(argv[2]) << 20;
  options.wall_time = std::chrono::milliseconds(std::atoi(argv[3]));
  moonlet::Interpreter lua(options);
  const auto start = Clock::now();
  try {
    for (const moonlet::Value& value : lua.run_file(argv[4]))
      std::printf("gives %s\n", value.string().c_str());
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
  const std::chrono::duration<double> time = Clock::now() - start;
  try {
    lua.run_string("kept = nil collectgarbage() collectgarbage()");
    lua.run_string("local ml = require 'moonlet' assert((ml.ones(1000) + 1):sum():item() == 2000)");
    std::printf("goes on\n");
  } catch (const std::exception& e) {
    std::printf("does not go on: %s\n", e.what());
  }
  std::printf("took %.1f s\npeak %ld MiB\n", time.count(), peak());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5) return run_limited(argv);
  if (argc != 3) return 2;
  const int count = std::atoi(argv[1]);
  std::vector<std::string> outcomes(static_cast<size_t>(count * kRuns));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&outcomes, argv, i] {
      for (int run = 0; run < kRuns; ++run)
        outcomes[static_cast<size_t>(i * kRuns + run)] = outcome(argv[2]);
    });
  for (std::thread& thread : threads) thread.join();
  bool same = true;
  for (const std::string& each : outcomes)
    if (each != outcomes[0]) {
      std::printf("%s", each.c_str());
      same = false;
    }
  std::printf("%s", outcomes[0].c_str());
  return same ? 0 : 1;
}
