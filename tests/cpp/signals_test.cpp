// tests/cpp/signals_test.cpp: signals and requests to stop while ops compute: handlers on the same
// stack leave results alone, and long ops give up.
#include "tests/cpp/catch2.h"

#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "tensor/raw_arithmetic.h"
#include "tensor/raw_conv.h"
#include "tensor/raw_create.h"
#include "tensor/raw_gather.h"
#include "tensor/raw_image.h"
#include "tensor/raw_index.h"
#include "tensor/raw_linalg.h"
#include "tensor/raw_loss.h"
#include "tensor/raw_math.h"
#include "tensor/raw_normalization.h"
#include "tensor/raw_pool.h"
#include "tensor/raw_reduce.h"
#include "tensor/raw_scan.h"
#include "tensor/raw_shape.h"
#include "tensor/raw_softmax.h"
#include "tensor/raw_sort.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/threads.h"

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
    const Tensor y = raw::native_conv(x, w, {}, stride, padding, dilation, groups);
    const auto grad_x = [&] {
      return raw::native_conv_transpose(y, w, {}, x.sizes(), stride, padding, dilation, groups);
    };
    const auto grad_w = [&] {
      return raw::native_conv_grad_weight(y, x, w.sizes(), stride, padding, dilation, groups);
    };
    check_under_timer(
        [&] { return raw::native_conv(x, w, {}, stride, padding, dilation, groups); });
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

// The elements of one item of a kernel that are more than it computes at once.
constexpr int64_t kLong = 9 << 18;

Tensor zeros_of(DType dtype, const Dims& sizes) {
  Tensor t = empty_plain(sizes, {dtype, {}});
  std::memset(t.raw(), 0, static_cast<size_t>(t.numel()) * size_of(dtype));
  return t;
}

Tensor positions(int64_t count) {
  Tensor t = empty_plain({count}, {DType::Int64, {}});
  std::fill_n(t.data<int64_t>(), count, 1);
  return t;
}

void check_long_rows_stop() {
  const Tensor row = noise({1, kLong}), columns = noise({kLong / 4, 4}), one = noise({1, 1});
  const Tensor integers = zeros_of(DType::Int64, {1, kLong});
  for (const Tensor& x : {row, columns}) {
    const int64_t dim = x.size(0) == 1 ? 1 : 0;
    check_stops("softmax", [&] { raw::softmax(x, dim); });
    check_stops("log_softmax", [&] { raw::log_softmax(x, dim); });
    check_stops("softmax_grad_x", [&] { raw::softmax_grad_x(x, x, dim); });
    check_stops("log_softmax_grad_x", [&] { raw::log_softmax_grad_x(x, x, dim); });
    check_stops("max_dim", [&] { raw::max_dim(x, dim, false); });
    check_stops("argmin", [&] { raw::argmin(x, dim, false); });
    check_stops("cummax", [&] { raw::cummax(x, dim); });
    check_stops("logcumsumexp", [&] { raw::logcumsumexp(x, dim); });
    check_stops("kthvalue", [&] { raw::kthvalue(x, 7, dim, false); });
    check_stops("median_dim", [&] { raw::median_dim(x, dim, false); });
  }
  check_stops("argmax of integers", [&] { raw::argmax(integers, 1, false); });
  check_stops("norm", [&] { raw::norm(row, HUGE_VAL, {0, 1}, false, std::nullopt); });
  check_stops("sort of bytes",
              [&] { raw::sort(zeros_of(DType::UInt8, {kLong}), 0, false, false); });
  check_stops("layer_norm", [&] { raw::native_layer_norm(row, {kLong}, {}, {}, 1e-5); });
  check_stops("layer_norm_grad_x",
              [&] { raw::layer_norm_grad_x(row, row, one, one, {}, 1, 1e-5); });
  check_stops("layer_norm_grad_weight",
              [&] { raw::layer_norm_grad_weight(row, row, one, one, 1, 1e-5); });
  for (const Dims& sizes : {Dims{1, 1, kLong}, Dims{kLong, 1}, Dims{kLong / 4, 1, 4}}) {
    const Tensor x = noise(sizes), each = noise(Dims::filled(sizes.size(), 1));
    check_stops("batch_norm", [&] { raw::native_batch_norm(x, {}, {}, {}, {}, 0.1, 1e-5); });
    check_stops("batch_norm_grad_x", [&] { raw::batch_norm_grad_x(x, x, each, each, {}, 1e-5); });
    check_stops("batch_norm_grad_weight",
                [&] { raw::batch_norm_grad_weight(x, x, each, each, 1e-5); });
  }
}

void check_products_stop() {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Int64}) {
    const int64_t n = dtype == DType::Int64 ? kLong : int64_t{9} << 21;
    const Tensor a = zeros_of(dtype, {2, n}), x = zeros_of(dtype, {n});
    const Tensor tall = zeros_of(dtype, {n, 2}), two = zeros_of(dtype, {2});
    check_stops("mv", [&] { raw::mv(a, x); });
    check_stops("mv of many rows", [&] { raw::mv(tall, two); });
    check_stops("dot", [&] { raw::dot(x, x); });
    check_stops("outer", [&] { raw::outer(two, x); });
    check_stops("mm of long inner sums", [&] { raw::mm(a, tall); });
  }
  const Tensor batch = noise({9, 256, 256});
  check_stops("bmm", [&] { raw::bmm(batch, batch); });
}

void check_positions_stop() {
  const Tensor at = positions(kLong), x = noise({8}), source = noise({kLong});
  const Tensor pairs = noise({kLong, 2}), none;
  check_stops("gather", [&] { raw::gather(x, 0, at); });
  check_stops("scatter", [&] { raw::scatter(x, 0, at, source); });
  check_stops("scatter_add", [&] { raw::scatter_add(x, 0, at, source); });
  check_stops("index_select", [&] { raw::index_select(x, 0, at); });
  check_stops("index_select of short rows", [&] { raw::index_select(pairs, 1, positions(1)); });
  check_stops("index_add", [&] { raw::index_add(x, 0, at, source); });
  check_stops("embedding_grad_weight", [&] { raw::embedding_grad_weight(pairs, at, 8, 0); });
  check_stops("index", [&] { raw::index(x, {at}); });
  check_stops("index_put", [&] { raw::index_put(x, {at}, source, true); });
  check_stops("nonzero", [&] { raw::nonzero(source); });
  check_stops("nll_loss", [&] { raw::native_nll_loss(pairs, at, none, 1, 0); });
  check_stops("nll_loss_grad_log_probs", [&] {
    raw::nll_loss_grad_log_probs(noise({}), at, none, noise({}), pairs.sizes(), 1, 0);
  });
}

void check_planes_stop() {
  const Tensor plane = noise({1, 1, 1536, 1536}), half = noise({1, 1, 768, 768});
  const Dims two{2, 2}, one{1, 1}, zero{0, 0}, plane_sizes{1536, 1536};
  const auto indices = [&](const Tensor& x) {
    return alias(positions(x.numel()), x.sizes(), x.strides(), 0);
  };
  check_stops("max_pool2d",
              [&] { raw::max_pool2d_with_indices(plane, two, two, zero, one, false); });
  check_stops("max_pool2d of any windows", [&] {
    raw::max_pool2d_with_indices(plane, {3, 3}, one, one, one, false);
  });
  check_stops("max_pool2d_grad_x",
              [&] { raw::max_pool2d_grad_x(plane, indices(plane), plane.sizes()); });
  check_stops("max_pool2d_grad_x_grad_grad",
              [&] { raw::max_pool2d_grad_x_grad_grad(plane, indices(plane)); });
  check_stops("avg_pool2d",
              [&] { raw::avg_pool2d(plane, two, two, zero, false, true, std::nullopt); });
  check_stops("avg_pool2d_grad_x", [&] {
    raw::avg_pool2d_grad_x(half, plane.sizes(), two, two, zero, false, true, std::nullopt);
  });
  check_stops("adaptive_avg_pool2d", [&] { raw::adaptive_avg_pool2d(plane, one); });
  check_stops("adaptive_avg_pool2d_grad_x", [&] {
    raw::adaptive_avg_pool2d_grad_x(noise({1, 1, 1, 1}), plane.sizes());
  });
  check_stops("im2col", [&] { raw::im2col(plane, two, one, zero, one); });
  const Tensor columns = noise({1, 4, 768 * 768});
  check_stops("col2im", [&] { raw::col2im(columns, plane_sizes, two, one, zero, two); });
  check_stops("resample", [&] {
    raw::resample(plane, {1, 1, 1536, 3072}, 3, "cubic", false, false, std::nullopt);
  });
  check_stops("resample_grad_x", [&] {
    raw::resample_grad_x(plane, {1, 1, 3072, 1536}, 2, "cubic", false, false, std::nullopt);
  });
  const Tensor x = zeros_of(DType::Float64, {1, 1, 8, kLong / 8});
  const Tensor w = zeros_of(DType::Float64, {1, 1, 3, 3});
  check_stops("conv2d by products", [&] { raw::native_conv(x, w, {}, one, one, one, 1); });
  check_stops("conv_transpose by products",
              [&] { raw::native_conv_transpose(x, w, {}, x.sizes(), one, one, one, 1); });
}

// By one thread, which has the least to do between two looks at the flag.
void check_convolutions_stop() {
  const Tensor line = noise({1, 1, 1, int64_t{1} << 21}), taps = noise({4, 1, 1, 3});
  const Tensor plane = noise({1, 1, 320, 320}), wide = noise({1, 1, 127, 127});
  const Tensor images = noise({1, 32, 256, 256}), filters = noise({64, 32, 7, 7});
  const Dims one{1, 1}, same{3, 3}, none{0, 0};
  check_stops("conv2d of one line", [&] { raw::native_conv(line, taps, {}, one, none, one, 1); });
  check_stops("conv2d with a large kernel",
              [&] { raw::native_conv(plane, wide, {}, one, none, one, 1); });
  check_stops("conv2d of one image",
              [&] { raw::native_conv(images, filters, {}, one, same, one, 1); });
  const Tensor grad = noise({1, 64, 256, 256}), line_grad = noise({1, 4, 1, line.size(3) - 2});
  check_stops("conv_transpose of one image", [&] {
    raw::native_conv_transpose(grad, filters, {}, images.sizes(), one, same, one, 1);
  });
  check_stops("conv_grad_weight of one image", [&] {
    raw::native_conv_grad_weight(grad, images, filters.sizes(), one, same, one, 1);
  });
  check_stops("conv_grad_weight of one line", [&] {
    raw::native_conv_grad_weight(line_grad, line, taps.sizes(), one, none, one, 1);
  });
}

void check_layouts_stop() {
  Tensor range = noise({kLong});
  const Tensor row = noise({1, kLong}), long_row = noise({1, int64_t{9} << 20});
  check_stops("iota", [&] { raw::iota_(range, 1, 1); });
  check_stops("flip", [&] { raw::flip(row, {1}); });
  check_stops("flip of rows", [&] { raw::flip(long_row, {0}); });
  check_stops("tril", [&] { raw::tril(long_row, 0); });
  check_stops("diagonal_grad_x", [&] {
    raw::diagonal_grad_x(noise({2048}), {2048, 2048}, 0, 0, 1);
  });
}

}  // namespace

TEST_CASE("long ops meet a request to stop") {
  const int threads = num_threads();
  for (const int count : {threads, 1}) {
    set_num_threads(count);
    check_all_stop();
    check_long_rows_stop();
    check_products_stop();
    check_positions_stop();
    check_planes_stop();
    check_layouts_stop();
  }
  check_convolutions_stop();
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
