// scripts/realtime/main.cpp: a host program that runs an exported policy at a fixed rate, without
// Lua, and prints how late and how long its calls were.
//   moonlet policy.lua policy.mlp
//   c++ -std=c++20 -O2 main.cpp $(pkg-config --cflags --libs moonlet-run) -o realtime
//   ./realtime policy.mlp 1000 60000
// Arguments: the program, calls per second (1000), calls (60000). OMP_NUM_THREADS=1 keeps small
// programs on one thread; `chrt -f 80` gives it a priority that other processes do not have.
#include <moonlet/program.h>
#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

void sleep_until(int64_t when) {
  const timespec t{when / kSecond, when % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0) {
  }
}

// The value below which that share of the sorted ones is.
double share(const std::vector<int64_t>& sorted, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]) / 1000;
}

void print_shares(const char* what, std::vector<int64_t> times) {
  std::sort(times.begin(), times.end());
  std::printf("%-8s median %8.2f us   p99 %8.2f   p99.9 %8.2f   max %8.2f\n", what,
              share(times, 0.5), share(times, 0.99), share(times, 0.999), share(times, 1));
}

// How many calls took how long, by powers of 2.
void print_histogram(const std::vector<int64_t>& times) {
  std::vector<size_t> counts(40);
  for (const int64_t t : times)
    ++counts[static_cast<size_t>(std::log2(static_cast<double>(std::max<int64_t>(t, 1))))];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const int width = static_cast<int>(50 * counts[i] / times.size());
    std::printf("%10.2f us %8zu %.*s\n", static_cast<double>(int64_t{1} << i) / 1000, counts[i],
                width, "##################################################");
  }
}

int64_t numel(const moonlet::Dims& sizes) {
  int64_t out = 1;
  for (const int64_t size : sizes) out *= size;
  return out;
}

int run(const char* path, int64_t rate, int64_t calls) {
  const moonlet::Program program = moonlet::Program::load(path);
  std::fputs(program.describe().c_str(), stdout);
  if (program.inputs().size() != 1 || program.outputs().size() != 1 ||
      program.inputs()[0].dtype != moonlet::DType::Float32 ||
      program.outputs()[0].dtype != moonlet::DType::Float32) {
    std::fprintf(stderr, "realtime: a program of one float32 input and output is expected\n");
    return 1;
  }
  const moonlet::Dims in_sizes = program.inputs()[0].sizes, out_sizes = program.outputs()[0].sizes;
  std::vector<float> state(static_cast<size_t>(numel(in_sizes)));
  std::vector<float> action(static_cast<size_t>(numel(out_sizes)));
  const moonlet::Program::Input in[] = {{state.data(), moonlet::DType::Float32, in_sizes}};
  const moonlet::Program::Output out[] = {{action.data(), moonlet::DType::Float32, out_sizes}};
  moonlet::Program::Context context(program);
  context.run(in, out);  // the first run takes its memory

  std::vector<int64_t> late(static_cast<size_t>(calls)), took(static_cast<size_t>(calls));
  mlockall(MCL_CURRENT | MCL_FUTURE);  // where that is allowed
  const int64_t period = kSecond / rate, start = now() + period;
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t due = start + i * period;
    sleep_until(due);
    const int64_t begin = now();
    for (size_t k = 0; k < state.size(); ++k)
      state[k] = std::sin(0.001f * static_cast<float>(i) + static_cast<float>(k));
    context.run(in, out);
    took[static_cast<size_t>(i)] = now() - begin;
    late[static_cast<size_t>(i)] = begin - due;
  }
  std::printf("%lld calls at %lld Hz, the last output %g\n", static_cast<long long>(calls),
              static_cast<long long>(rate), static_cast<double>(action[0]));
  print_shares("call", took);
  print_shares("wake-up", late);
  print_histogram(took);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t rate = count > 2 ? std::atoll(arguments[2]) : 1000;
  const int64_t calls = count > 3 ? std::atoll(arguments[3]) : 60000;
  if (count < 2 || rate < 1 || calls < 1) {
    std::fprintf(stderr, "usage: realtime PROGRAM [CALLS_PER_SECOND [CALLS]]\n");
    return 2;
  }
  try {
    return run(arguments[1], rate, calls);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "realtime: %s\n", e.what());
    return 1;
  }
}
