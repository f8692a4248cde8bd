// tensor/cpu/simd/simd_targets.cpp: which of Highway's instruction sets the processor has, for its
// dispatch. Highway's own library, which has the same two functions, is not linked: whenever it is
// loaded it times the processor's clock for its benchmarks, longer than all else takes to start.
// On x86 MOONLET_MAX_SIMD in the environment, "avx512", "avx2" or "scalar", leaves larger ones
// alone, for tests of what other processors compute.
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include <cstdlib>
#include <string_view>

#include "hwy/targets.h"
#include "tensor/core/error.h"

namespace {

// Those of the targets that the environment allows.
int64_t allowed(int64_t targets) {
  const char* most = std::getenv("MOONLET_MAX_SIMD");
  const std::string_view name = most != nullptr ? most : "avx512";
  moonlet::check(name == "avx512" || name == "avx2" || name == "scalar",
                 "MOONLET_MAX_SIMD: \"avx512\", \"avx2\" or \"scalar\" is expected, got '", name,
                 "'");
#if HWY_ARCH_X86
  if (name != "avx512") targets &= ~int64_t{HWY_AVX3};
  if (name == "scalar") targets &= ~int64_t{HWY_AVX2};
#endif
  return targets;
}

}  // namespace

namespace hwy {

int64_t SupportedTargets() {
  int64_t targets = HWY_STATIC_TARGET | HWY_SCALAR;
#if HWY_ARCH_X86
  // These look at what the operating system keeps of the registers, too.
  const bool avx2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
                    __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx2") &&
                    __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  targets |= (avx2 ? HWY_AVX2 : 0) | (avx3 ? HWY_AVX3 : 0);
#endif
  return allowed(targets);
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
