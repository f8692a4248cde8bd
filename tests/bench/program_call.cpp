// tests/bench/program_call.cpp: the time of Program::Context::run on a host's own memory: the best
// of several rounds, and the median and 99.9th percentile of single calls. Nothing is asserted.
// usage: program_call FILE [CALLS], of a file of programs.lua; OMP_NUM_THREADS sets the threads
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tensor/program/program.h"

namespace {

using moonlet::Program;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// Ones for int64, which may be positions; zeros for what is no float32; else numbers around 0.
std::vector<char> contents(const Program::Description& of) {
  int64_t count = 1;
  for (const int64_t size : of.sizes) count *= size;
  std::vector<char> bytes(static_cast<size_t>(count) * size_of(of.dtype));
  if (of.dtype == moonlet::DType::Int64)
    std::fill_n(reinterpret_cast<int64_t*>(bytes.data()), count, int64_t{1});
  if (of.dtype != moonlet::DType::Float32) return bytes;
  auto* const values = reinterpret_cast<float*>(bytes.data());
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: program_call FILE [CALLS]\n");
    return 2;
  }
  const int calls = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1000;
  Program program = Program::load(argv[1]);
  Program::Context context(program);
  std::vector<std::vector<char>> memory;
  std::vector<Program::Input> inputs;
  std::vector<Program::Output> outputs;
  for (const Program::Description& each : program.inputs()) {
    memory.push_back(contents(each));
    inputs.push_back({memory.back().data(), each.dtype, each.sizes});
  }
  for (const Program::Description& each : program.outputs()) {
    memory.push_back(contents(each));
    outputs.push_back({memory.back().data(), each.dtype, each.sizes});
  }
  Clock::time_point start = Clock::now();
  context.run(inputs, outputs);
  const double first = microseconds(start);
  constexpr int kRounds = 200;
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    start = Clock::now();
    const int some = std::max(1, calls / kRounds);
    for (int i = 0; i < some; ++i) context.run(inputs, outputs);
    best = std::min(best, microseconds(start) / some);
  }
  std::vector<double> times(static_cast<size_t>(calls));
  for (double& time : times) {
    start = Clock::now();
    context.run(inputs, outputs);
    time = microseconds(start);
  }
  std::sort(times.begin(), times.end());
  std::printf("%s best %.3f us, median %.3f, p99.9 %.3f, first %.0f\n", argv[1], best,
              times[times.size() / 2], times[times.size() * 999 / 1000], first);
  return 0;
}
