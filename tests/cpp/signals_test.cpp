// tests/cpp/signals_test.cpp: signals and requests to stop while ops compute: handlers on the same
// stack leave results alone, and long ops give up.
#include "tests/cpp/catch2.h"

#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>

#include "tensor/interrupt.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_conv.h"
#include "tensor/raw_linalg.h"
#include "tensor/raw_math.h"
#include "tensor/raw_reduce.h"
#include "tensor/raw_scan.h"
#include "tensor/raw_softmax.h"
#include "tensor/raw_sort.h"
#include "tensor/threads.h"

using namespace moonlet;

namespace {

std::atomic<int> ticks{0};

void scribble(int) {
  volatile char frame[2048];
  for (size_t i = 0; i < sizeof frame; ++i) frame[i] = 0x5a;
  ticks = ticks + 1;
}

// While alive, a host's 1 kHz timer runs, with a handler on the stack of whoever gets the signal.
class Timer {
 public:
  Timer() {
    struct sigaction action {};
    action.sa_handler = scribble;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    set(1000);
  }
  ~Timer() {
    set(0);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void set(int microseconds) {
    const itimerval every{{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  struct sigaction before_ {};
};

Tensor noise(const Dims& sizes) {
  Tensor t = empty_plain(sizes, {});
  uint32_t state = 12345;
  for (int64_t i = 0; i < t.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    t.data<float>()[i] = static_cast<float>(state >> 8) / float(1 << 24) - 0.5f;
  }
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// Computes again and again, until the timer has come in often or it takes too long, and compares.
void check_under_timer(const std::function<Tensor()>& compute) {
  using Clock = std::chrono::steady_clock;
  const Tensor expected = compute();
  const auto end = Clock::now() + std::chrono::seconds(3);
  const int wanted = ticks + 150;
  const Timer timer;
  bool same = true;
  while (same && ticks < wanted && Clock::now() < end) same = same_bits(compute(), expected);
  CHECK(same);
}

Tensor flipped(const Tensor& x) {
  return alias(x, {x.size(1), x.size(0)}, {x.stride(1), x.stride(0)}, x.offset());
}

}  // namespace

TEST_CASE("a timer of the host leaves products alone") {
  for (const Dims& s : {Dims{320, 300, 200}, Dims{96, 700, 90}, Dims{40, 64, 3000}}) {
    const Tensor a = noise({s[0], s[2]}), b = noise({s[2], s[1]});
    const Tensor at = noise({s[2], s[0]}), bt = noise({s[1], s[2]});
    check_under_timer([&] { return raw::mm(a, b); });
    check_under_timer([&] { return raw::mm(a, flipped(bt)); });
    check_under_timer([&] { return raw::mm(flipped(at), b); });
  }
}

TEST_CASE("a timer of the host leaves convolutions alone") {
  const auto check = [](const Tensor& x, const Tensor& w, int64_t groups) {
    const Dims stride{1, 1}, padding{1, 1}, dilation{1, 1};
    const Tensor y = raw::conv2d(x, w, {}, stride, padding, dilation, groups);
    const auto grad_x = [&] {
      return raw::conv2d_grad_x(y, w, x.sizes(), stride, padding, dilation, groups);
    };
    const auto grad_w = [&] {
      return raw::conv2d_grad_weight(y, x, w.sizes(), stride, padding, dilation, groups);
    };
    check_under_timer([&] { return raw::conv2d(x, w, {}, stride, padding, dilation, groups); });
    check_under_timer(grad_x);
    check_under_timer(grad_w);
  };
  check(noise({4, 16, 40, 40}), noise({32, 16, 3, 3}), 1);
  // oneDNN computes these by matrix products.
  check(noise({4, 60, 24, 24}), noise({68, 15, 3, 3}), 4);
}

namespace {

// With a request already made, the op gives up, the request is met, and the next op runs.
void check_stops(const char* name, const std::function<void()>& op) {
  INFO(name);
  StopFlag flag;
  StopFlag* const before = execution.stop;
  execution.stop = &flag;
  flag.request("stopped by the test");
  CHECK_THROWS_WITH(op(), "stopped by the test");
  CHECK_FALSE(flag.requested());
  CHECK_NOTHROW(raw::add(noise({4}), noise({4})));
  flag.request_until_cancelled("for good");
  CHECK_THROWS_AS(op(), Interrupted);
  CHECK(flag.requested());
  flag.cancel();
  CHECK_FALSE(flag.requested());
  execution.stop = before;
}

void check_all_stop() {
  const int64_t many = 9 << 18;
  const Tensor x = noise({many}), wide = noise({4, many / 4}), square = noise({1536, 1536});
  const Tensor images = noise({4, 3, 32, 32}), filters = noise({8, 3, 3, 3});
  check_stops("exp", [&] { raw::exp(x); });
  check_stops("add", [&] { raw::add(x, x); });
  check_stops("add of rows", [&] { raw::add(wide, noise({4, 1})); });
  check_stops("sum", [&] { raw::sum(x, {0}, false, std::nullopt); });
  check_stops("cumsum", [&] { raw::cumsum(x, 0, std::nullopt); });
  check_stops("cumsum of columns", [&] { raw::cumsum(noise({many / 64, 64}), 0, std::nullopt); });
  check_stops("sort", [&] { raw::sort(x, 0, false, false); });
  check_stops("topk", [&] { raw::topk(x, 5, 0, true, true); });
  check_stops("mm", [&] { raw::mm(square, square); });
  check_stops("var", [&] { raw::var(x, {0}, 1, false); });
  check_stops("logsumexp", [&] { raw::logsumexp(x, {0}, false); });
  check_stops("softmax", [&] { raw::softmax(noise({512, 8192}), 1); });
}

}  // namespace

TEST_CASE("long ops meet a request to stop") {
  const int threads = num_threads();
  check_all_stop();
  set_num_threads(1);
  check_all_stop();
  set_num_threads(threads);
}

TEST_CASE("an op that was stopped has changed its argument, and the version says so") {
  Tensor x = noise({9 << 18});
  const auto version = x.storage().version();
  StopFlag flag;
  StopFlag* const before = execution.stop;
  execution.stop = &flag;
  flag.request("stop");
  CHECK_THROWS_AS(raw::exp_(x), Interrupted);
  execution.stop = before;
  CHECK(x.storage().version() > version);
}
