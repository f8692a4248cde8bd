// tests/hostile/threads.cpp: runs a script in several interpreters at once, each on a thread of its
// own, several times. usage: hostile-threads COUNT SCRIPT
// Prints what the script returned, as text, once if all runs agree; else ends with status 1.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "interp/moonlet.h"

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

}  // namespace

int main(int argc, char** argv) {
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
