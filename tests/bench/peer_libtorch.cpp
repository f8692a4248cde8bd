// tests/bench/peer_libtorch.cpp: one call of a small MLP from C++ by LibTorch, which is no part of
// the build: as TorchScript, and as a module of its C++ interface.
//   T=.../site-packages/torch
//   c++ -std=c++20 -O2 -I$T/include -I$T/include/torch/csrc/api/include peer_libtorch.cpp -L$T/lib
//     -ltorch -ltorch_cpu -lc10 -Wl,-rpath,$T/lib
// usage: peer_libtorch FILE, of torch.jit.script
#include <torch/script.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

template <class F>
double best_of(F&& call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 300, kTurns = 100;
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kTurns; ++i) call();
    const double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    best = std::min(best, time / kTurns);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const c10::InferenceMode inference;
  at::set_num_threads(1);
  torch::jit::Module scripted = torch::jit::load(argv[1]);
  scripted.eval();
  torch::jit::Module frozen = torch::jit::freeze(scripted);
  const at::Tensor x = at::ones({1, 4});
  std::printf("torch::jit %.2f us\n", best_of([&] { scripted.forward({x}); }));
  std::printf("torch::jit, frozen %.2f us\n", best_of([&] { frozen.forward({x}); }));
  const at::Tensor a = at::ones({16, 4}), b = at::ones({16}), c = at::ones({3, 16}),
                   d = at::ones({3});
  std::printf("at::linear, tanh, linear %.2f us\n",
              best_of([&] { at::linear(at::tanh(at::linear(x, a, b)), c, d); }));
  return 0;
}
