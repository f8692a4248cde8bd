// tensor/cpu/pointwise_targets.h: the instruction sets pointwise kernels are compiled for: few,
// so that a family compiles fast. Include before any Highway header. Of long kernels, for which
// MOONLET_FEW_TARGETS is defined before it, processors without AVX2 run the baseline's.
#pragma once

// SSSE3 and AVX3_DL add little beside SSE4 and AVX3. Under AddressSanitizer, which makes compiling
// slow, the baseline and AVX2 do: it checks loops, not instructions.
#ifndef HWY_DISABLED_TARGETS
#define MOONLET_RARE_TARGETS ((1LL << 12) | (1LL << 7) | (1LL << 6))
#define MOONLET_SSE4 (1LL << 11)
#ifdef __SANITIZE_ADDRESS__
#define HWY_DISABLED_TARGETS (MOONLET_RARE_TARGETS | MOONLET_SSE4 | (1LL << 8))
#elif defined(MOONLET_FEW_TARGETS)
#define HWY_DISABLED_TARGETS (MOONLET_RARE_TARGETS | MOONLET_SSE4)
#else
#define HWY_DISABLED_TARGETS MOONLET_RARE_TARGETS
#endif
#endif
