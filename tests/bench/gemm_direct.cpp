// tests/bench/gemm_direct.cpp: matmul against cblas_sgemm called directly, in turn in one process.
// Prints what percentage of the direct call's speed matmul reaches, per size.
// usage: gemm_direct [ROUNDS]; OMP_NUM_THREADS sets the threads.
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "autograd/ops.h"

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class F>
double time_of(int inner, F&& f) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < inner; ++i) f();
  return seconds_since(start) / inner;
}

void compare(int n, int rounds) {
  using moonlet::Tensor;
  const Tensor a = moonlet::randn({n, n}, {});
  const Tensor b = moonlet::randn({n, n}, {});
  Tensor c = moonlet::empty({n, n}, {});
  const int inner = std::max(1, 256 / n * 4);
  std::vector<double> ours, direct;
  for (int round = 0; round <= rounds; ++round) {
    const double one = time_of(inner, [&] { moonlet::matmul(a, b); });
    const double two = time_of(inner, [&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a.data<float>(), n,
                  b.data<float>(), n, 0.0f, c.data<float>(), n);
    });
    if (round == 0) continue;  // the first is a warm-up
    ours.push_back(one);
    direct.push_back(two);
  }
  const double flops = 2.0 * n * n * n;
  std::printf("mm.%d %.1f %% of %.4g GFLOP/s\n", n, 100 * median(direct) / median(ours),
              flops / median(direct) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  for (const int n : {64, 128, 256, 512, 1024, 2048}) compare(n, rounds);
}
