// tests/bench/step_floor.cpp: how long the products and convolutions of the steps in models.lua
// take at their shapes by the fastest of cblas, oneDNN and our own kernels, each called directly:
// no step that computes them so can take less. Prints `floor.NAME value ms/step`, beside which
// bench.lua has `train.NAME`. usage: step_floor [ROUNDS]; OMP_NUM_THREADS sets the threads.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "moonlet_config.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/kernels_conv.h"
#if MOONLET_ONEDNN
#include <dnnl.hpp>
#endif

namespace {

using Buffer = std::vector<float>;

// The least seconds of one call; each round is long enough for the clock.
double least_seconds(int rounds, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kRound = 2e-4;
  double best = std::numeric_limits<double>::infinity();
  int inner = 1;
  call();
  for (int round = 0; round < rounds;) {
    const auto start = Clock::now();
    for (int i = 0; i < inner; ++i) call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kRound && inner < (1 << 20)) {
      inner *= 2;
      continue;
    }
    best = std::min(best, seconds / inner);
    ++round;
  }
  return best;
}

Buffer numbers(int64_t count) {
  Buffer out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  return out;
}

// `times` products (m, k) x (k, n); a flipped operand lies transposed.
struct Product {
  bool flip_a, flip_b;
  int m, n, k, times;
};

moonlet::cpu::Matrix matrix(const Buffer& elements, int64_t rows, int64_t cols, bool flip) {
  char* const data = const_cast<char*>(reinterpret_cast<const char*>(elements.data()));
  return {data, rows, cols, flip ? 1 : cols, flip ? rows : 1};
}

// By the fastest of the libraries and our kernels.
double seconds_of(const Product& p, int rounds) {
  const Buffer a = numbers(int64_t{p.m} * p.k), b = numbers(int64_t{p.k} * p.n);
  Buffer c(static_cast<size_t>(p.m) * static_cast<size_t>(p.n));
  const int lda = p.flip_a ? p.m : p.k, ldb = p.flip_b ? p.k : p.n;
  double best = least_seconds(rounds, [&] {
    moonlet::cpu::gemm(moonlet::DType::Float32, 1, matrix(a, p.m, p.k, p.flip_a),
                       matrix(b, p.k, p.n, p.flip_b), 0, matrix(c, p.m, p.n, false));
  });
  best = std::min(best, least_seconds(rounds, [&] {
                    cblas_sgemm(CblasRowMajor, p.flip_a ? CblasTrans : CblasNoTrans,
                                p.flip_b ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, 1, a.data(),
                                lda, b.data(), ldb, 0, c.data(), p.n);
                  }));
#if MOONLET_ONEDNN
  best = std::min(best, least_seconds(rounds, [&] {
                    dnnl_sgemm(p.flip_a ? 'T' : 'N', p.flip_b ? 'T' : 'N', p.m, p.n, p.k, 1,
                               a.data(), lda, b.data(), ldb, 0, c.data(), p.n);
                  }));
#endif
  return best * p.times;
}

// A convolution of square images without padding.
struct Convolution {
  int batch, in, size, out, kernel;
  bool by_x;  // whether the gradient of the images is computed
};

// Of the result, of the filters and, where it is computed, of the images.
using Passes = std::array<double, 3>;

// By the kernels that ops call.
Passes seconds_of_ours(const Convolution& c, int rounds) {
  using namespace moonlet;  // NOLINT(google-build-using-namespace)
  const int64_t size = c.size - c.kernel + 1;
  const auto filled = [](const Dims& sizes) {
    Tensor t = empty_plain(sizes, {});
    std::copy_n(numbers(t.numel()).data(), t.numel(), t.data<float>());
    return t;
  };
  Tensor x = filled({c.batch, c.in, c.size, c.size}), w = filled({c.out, c.in, c.kernel, c.kernel}),
         y = filled({c.batch, c.out, size, size});
  const Dims ones{1, 1}, none{0, 0};
  return {
      least_seconds(rounds, [&] { cpu::native_conv(x, w, {}, ones, none, ones, 1, y); }),
      least_seconds(rounds,
                    [&] { cpu::native_conv_grad_weight(y, x, w.sizes(), ones, none, ones, 1, w); }),
      !c.by_x ? 0 : least_seconds(rounds, [&] {
        cpu::native_conv_transpose(y, w, {}, x.sizes(), ones, none, ones, 1, x);
      })};
}

#if MOONLET_ONEDNN && DNNL_VERSION_MAJOR == 2
// By oneDNN in the layouts that it likes best, of which reorders are no part.
Passes seconds_of_onednn(const Convolution& c, int rounds) {
  using namespace dnnl;  // NOLINT(google-build-using-namespace)
  const engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  const auto any = [](const memory::dims& sizes) {
    return memory::desc(sizes, memory::data_type::f32, memory::format_tag::any);
  };
  const int size = c.size - c.kernel + 1;
  const auto x = any({c.batch, c.in, c.size, c.size}), y = any({c.batch, c.out, size, size}),
             w = any({c.out, c.in, c.kernel, c.kernel});
  const memory::dims ones{1, 1}, none{0, 0};
  const auto direct = algorithm::convolution_direct;
  const convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, direct, x, w, y, ones, none, none}, cpu);
  const convolution_backward_weights::primitive_desc by_weight({direct, x, w, y, ones, none, none},
                                                               cpu, forward);
  const convolution_backward_data::primitive_desc by_x({direct, x, w, y, ones, none, none}, cpu,
                                                       forward);
  // Numbers that are normal, unlike what new memory may hold.
  const auto filled = [&](const memory::desc& desc) {
    memory out(desc, cpu);
    std::fill_n(static_cast<float*>(out.get_data_handle()), desc.get_size() / sizeof(float), 0.25f);
    return out;
  };
  const auto timed = [&](const primitive& pass, const memory::desc& mx, const memory::desc& mw,
                         const memory::desc& my, std::array<int, 3> as) {
    const memory xs = filled(mx), ws = filled(mw), ys = filled(my);
    return least_seconds(rounds, [&] {
      pass.execute(queue, {{as[0], xs}, {as[1], ws}, {as[2], ys}});
      queue.wait();
    });
  };
  Passes out{};
  out[0] = timed(convolution_forward(forward), forward.src_desc(), forward.weights_desc(),
                 forward.dst_desc(), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
  out[1] = timed(convolution_backward_weights(by_weight), by_weight.src_desc(),
                 by_weight.diff_weights_desc(), by_weight.diff_dst_desc(),
                 {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST});
  if (c.by_x)
    out[2] = timed(convolution_backward_data(by_x), by_x.diff_src_desc(), by_x.weights_desc(),
                   by_x.diff_dst_desc(), {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST});
  return out;
}
#else
Passes seconds_of_onednn(const Convolution&, int) {
  Passes out;
  out.fill(std::numeric_limits<double>::infinity());
  return out;
}
#endif

// Each pass by the fastest.
double seconds_of(const Convolution& c, int rounds) {
  const Passes ours = seconds_of_ours(c, rounds), by_onednn = seconds_of_onednn(c, rounds);
  const int64_t size = c.size - c.kernel + 1;
  // Of few channels, which oneDNN pads, a product of known columns takes less.
  const double by_columns = seconds_of(Product{false, true, c.out, c.in * c.kernel * c.kernel,
                                               static_cast<int>(c.batch * size * size), 1},
                                       rounds);
  return std::min(ours[0], by_onednn[0]) + std::min({ours[1], by_onednn[1], by_columns}) +
         std::min(ours[2], by_onednn[2]);
}

struct Step {
  const char* name;
  std::vector<Product> products;
  std::vector<Convolution> convolutions;

  // A linear layer for that many rows, and its gradients.
  void linear(int rows, int in, int out, bool by_x = true, int times = 1) {
    products.push_back({false, true, rows, out, in, times});
    products.push_back({true, false, out, in, rows, times});
    if (by_x) products.push_back({false, false, rows, in, out, times});
  }
  // Attention of whole matrices, and its gradients from weights that are known.
  void attention(int length, int width, int times) {
    products.push_back({false, true, length, length, width, 2 * times});
    products.push_back({false, false, length, width, length, 2 * times});
    products.push_back({true, false, length, width, length, 2 * times});
  }
};

std::vector<Step> steps() {
  Step mlp{"mlp_784_512_512_10_b128_sgd", {}, {}};
  mlp.linear(128, 784, 512, false);
  mlp.linear(128, 512, 512);
  mlp.linear(128, 512, 10);
  Step tiny{"tiny_4_16_3_b16_adam", {}, {}};
  tiny.linear(16, 4, 16, false);
  tiny.linear(16, 16, 3);
  Step lenet{"lenet_b64_adam", {}, {{64, 1, 28, 32, 5, false}, {64, 32, 12, 64, 5, true}}};
  lenet.linear(64, 1024, 128);
  lenet.linear(64, 128, 10);
  Step gpt{"gpt_4x128_b16_t64_adamw", {}, {}};
  constexpr int kRows = 16 * 64, kLayers = 4, kHeads = 4;
  for (const auto& [in, out] : {std::pair{128, 384}, {128, 128}, {128, 512}, {512, 128}})
    gpt.linear(kRows, in, out, true, kLayers);
  gpt.attention(64, 32, 16 * kHeads * kLayers);
  gpt.linear(kRows, 128, 65);
  Step lstm{"lstm_256_b64_t50_adam", {}, {}};
  constexpr int kSteps = 50;
  lstm.linear(64 * kSteps, 256, 4 * 256, false);
  lstm.products.push_back({false, true, 64, 4 * 256, 256, kSteps});
  lstm.products.push_back({false, false, 64, 256, 4 * 256, kSteps});
  lstm.products.push_back({true, false, 4 * 256, 256, 64 * kSteps, 1});
  lstm.linear(64, 256, 10);
  return {mlp, tiny, lenet, gpt, lstm};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  for (const Step& step : steps()) {
    double seconds = 0;
    for (const Product& p : step.products) seconds += seconds_of(p, rounds);
    for (const Convolution& c : step.convolutions) seconds += seconds_of(c, rounds);
    std::printf("floor.%s %.4g ms/step\n", step.name, 1e3 * seconds);
    std::fflush(stdout);
  }
}
