// scripts/embed_audio/main.cpp: a host with the deadline of an audio callback: it calls a script
// for each block of samples, collects garbage in the time that is left, and prints how long the
// calls and the collector took: by the clock, and by what the processor worked for them, which
// other programs of the machine do not lengthen.
//   c++ -std=c++20 -O2 main.cpp $(pkg-config --cflags --libs moonlet) -o audio
//   OMP_NUM_THREADS=1 ./audio synth.lua 1000 60000 200000 manual
// Arguments: the script, blocks per second (1000), blocks (60000), notes that the script holds,
// some 170 bytes each (10000), and the collector: automatic, bounded or manual (manual).
#include <moonlet/moonlet.h>
#include <moonlet/ops.h>
#include <time.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kSamples = 128;

int64_t read_clock(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

struct Moment {
  int64_t clock = read_clock(CLOCK_MONOTONIC), worked = read_clock(CLOCK_THREAD_CPUTIME_ID);
};

// How long something took, each time.
struct Times {
  explicit Times(size_t count) : clock(count), worked(count) {}
  void note(size_t i, const Moment& begin, const Moment& end) {
    clock[i] = end.clock - begin.clock;
    worked[i] = end.worked - begin.worked;
  }
  std::vector<int64_t> clock, worked;
};

void sleep_until(int64_t when) {
  const timespec t{when / kSecond, when % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0) {
  }
}

double share(const std::vector<int64_t>& sorted, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]) / 1000;
}

void print_shares(const char* what, std::vector<int64_t> times) {
  std::sort(times.begin(), times.end());
  std::printf("%-17s median %8.2f us   p99 %8.2f   p99.9 %8.2f   max %8.2f\n", what,
              share(times, 0.5), share(times, 0.99), share(times, 0.999), share(times, 1));
}

bool choose(std::string_view name, moonlet::Collector& collector) {
  if (name == "automatic") collector = moonlet::Collector::Automatic;
  if (name == "bounded") collector = moonlet::Collector::Bounded;
  if (name == "manual") collector = moonlet::Collector::Manual;
  return name == "automatic" || name == "bounded" || name == "manual";
}

void run(const char* script, int64_t rate, int64_t blocks, int64_t notes,
         moonlet::Collector collector) {
  moonlet::Interpreter::Options options;
  options.collector = collector;
  options.threads = 1;
  moonlet::Interpreter lua(options);
  const moonlet::Table synth = lua.run_file(script)[0].table();
  synth.get("set_score").function()(notes);
  lua.collect();
  const moonlet::Function process = synth.get("process").function();

  std::vector<float> in(kSamples), out(kSamples);
  const moonlet::Tensor block = moonlet::from_blob(in.data(), {kSamples}, moonlet::DType::Float32);
  const moonlet::Tensor result =
      moonlet::from_blob(out.data(), {kSamples}, moonlet::DType::Float32);
  const auto size = static_cast<size_t>(blocks);
  Times calls(size), collections(size);
  const int64_t period = kSecond / rate, start = Moment().clock + period;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t due = start + i * period;
    sleep_until(due);
    for (int k = 0; k < kSamples; ++k)
      in[static_cast<size_t>(k)] = std::sin(0.05f * static_cast<float>(i * kSamples + k));
    const Moment begin;
    process(block, result, i);
    const Moment done;
    // A tenth of the time between two blocks.
    if (collector == moonlet::Collector::Manual)
      lua.collect_for(std::chrono::microseconds(std::max<int64_t>(period / 10'000, 1)));
    calls.note(static_cast<size_t>(i), begin, done);
    collections.note(static_cast<size_t>(i), done, Moment());
  }
  const double mib = lua.run_string("return collectgarbage 'count'")[0].number() / 1024;
  std::printf("%lld blocks at %lld Hz, %.1f MiB of Lua's, the last sample %g\n",
              static_cast<long long>(blocks), static_cast<long long>(rate), mib,
              static_cast<double>(out[kSamples - 1]));
  print_shares("call, clock", calls.clock);
  print_shares("call, worked", calls.worked);
  if (collector != moonlet::Collector::Manual) return;
  print_shares("collector, clock", collections.clock);
  print_shares("collector, worked", collections.worked);
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t rate = count > 2 ? std::atoll(arguments[2]) : 1000;
  const int64_t blocks = count > 3 ? std::atoll(arguments[3]) : 60000;
  const int64_t notes = count > 4 ? std::atoll(arguments[4]) : 10000;
  moonlet::Collector collector = moonlet::Collector::Manual;
  if (count < 2 || rate < 1 || blocks < 1 || notes < 0 ||
      (count > 5 && !choose(arguments[5], collector))) {
    std::fprintf(stderr,
                 "usage: audio SCRIPT [BLOCKS_PER_SECOND [BLOCKS [NOTES [COLLECTOR]]]]\n"
                 "where COLLECTOR is automatic, bounded or manual\n");
    return 2;
  }
  try {
    run(arguments[1], rate, blocks, notes, collector);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "audio: %s\n", e.what());
    return 1;
  }
}
