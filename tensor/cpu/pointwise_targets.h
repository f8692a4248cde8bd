// tensor/cpu/pointwise_targets.h: the instruction sets pointwise kernels are compiled for: few,
// so that a family compiles fast. Include before any Highway header.
#pragma once

// SSSE3 and AVX3_DL add little beside SSE4 and AVX3. Under AddressSanitizer, which makes compiling
// slow, the baseline and AVX2 do: it checks loops, not instructions.
#ifndef HWY_DISABLED_TARGETS
#define MOONLET_RARE_TARGETS ((1LL << 12) | (1LL << 7) | (1LL << 6))
#ifdef __SANITIZE_ADDRESS__
#define HWY_DISABLED_TARGETS (MOONLET_RARE_TARGETS | (1LL << 11) | (1LL << 8))
#else
#define HWY_DISABLED_TARGETS MOONLET_RARE_TARGETS
#endif
#endif
