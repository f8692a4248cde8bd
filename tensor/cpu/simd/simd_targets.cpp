// tensor/cpu/simd/simd_targets.cpp: which of Highway's instruction sets the processor has, for its
// dispatch. Highway's own library, which has the same two functions, is not linked: whenever it is
// loaded it times the processor's clock for its benchmarks, longer than all else takes to start.
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/targets.h"

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
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
