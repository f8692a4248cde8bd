// tests/cpp/program/raw_source_test.cpp: kernels that scripts write, as NVIDIA's compiler takes
// them. Skips where NVRTC is not installed.
#include <catch2/catch.hpp>
#include <iostream>

#include "cuda/loops/nvrtc.h"
#include "cuda/loops/raw_source.h"
#include "tensor/core/error.h"

using namespace moonlet;
using namespace moonlet::cuda::loops;

namespace {

const Nvrtc* real_nvrtc() {
  static const Nvrtc* const found = []() -> const Nvrtc* {
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      const auto* nvrtc = new Nvrtc(file, 0);
      if (nvrtc->usable()) return nvrtc;
      delete nvrtc;
    }
    return nullptr;
  }();
  if (found == nullptr) std::cout << "SKIP kernels of scripts: libnvrtc is not installed\n";
  return found;
}

constexpr const char* kSource = R"(
#include <cstdint>
template <class T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void __launch_bounds__(256)
f(const float* __restrict__ x, float* y, int64_t n, uint8_t on, double a) {
  extern __shared__ float tile[];
  __shared__ int total;
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, on);
  if (i < n) y[i] = twice(tile[threadIdx.x]) + sinf(a) + total;
})";

}  // namespace

TEST_CASE("NVRTC takes a kernel of a script for every capability") {
  const Nvrtc* const nvrtc = real_nvrtc();
  if (nvrtc == nullptr) return;
  const RawSource source{kSource, "f", {}, {}};
  const std::string whole = raw_source_text(source, false);
  for (const int capability : {80, 90}) {
    const std::string code = nvrtc->compile(whole, capability);
    CHECK(code.size() > 1000);
    // By the name that the launch looks for.
    CHECK(code.find(raw_entry_name("f", false)) != std::string::npos);
  }
  CHECK(nvrtc->compile(whole, 90, "--use_fast_math\n-DREAL=double").size() > 1000);
}

TEST_CASE("errors have the lines of the script's text") {
  const Nvrtc* const nvrtc = real_nvrtc();
  if (nvrtc == nullptr) return;
  const RawSource source{
      "extern \"C\" __global__ void g(float* x) {\n  x[0] = 1;\n  y[0] = 2;\n}", "g", {}, {}};
  CHECK_THROWS_WITH(nvrtc->compile(raw_source_text(source, false), 90),
                    Catch::Contains("g.cu(3)") && Catch::Contains("\"y\" is undefined"));
}

TEST_CASE("the host's form has an entry that finds the arguments in one block") {
  const RawSource source{
      "extern \"C\" __global__ void h(const float* x, int n) {\n"
      "  extern __shared__ __align__(16) unsigned char bytes[ ];\n}",
      "h",
      {},
      {"const float*", "int"}};
  const std::string whole = raw_source_text(source, true);
  CHECK_THAT(whole, Catch::Contains("moonlet_entry_h_bytes = 16;"));
  CHECK_THAT(whole, Catch::Contains("*(std::remove_const_t<int>*)((char*)words + 8)"));
  CHECK_THAT(whole, Catch::Contains("unsigned char* bytes = static_cast<unsigned char*>("));
  CHECK_THAT(whole, Catch::Contains("#line 1 \"h.cu\"\nextern"));
}
