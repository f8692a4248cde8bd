// tensor/cpu/pointwise/pointwise_targets.h: the instruction sets kernels are compiled for: few, so
// that the program stays small and compiles fast. Include before any Highway header.
#pragma once
// The baseline, AVX2 and AVX3: SSSE3 and SSE4 add little to the baseline, and AVX3_DL to AVX3.
// AddressSanitizer, which makes compiling slow, checks loops and not instructions: it has no AVX3,
// and no baseline where the machine has AVX2 (meson.build).
// On ARM NEON alone: no structure can hold vectors of SVE, bits 24 to 27. Dispatch would want AES.
#ifndef HWY_DISABLED_TARGETS
#if defined(__aarch64__)
#define MOONLET_RARE_TARGETS (15LL << 24)
#define TOOLCHAIN_MISS_SYS_AUXV_H                      // what Highway calls the lack of dispatch
#define MOONLET_FUSES_PRODUCTS HWY_TARGET == HWY_NEON  // and sums, in one step
#else
#define MOONLET_RARE_TARGETS ((1LL << 12) | (1LL << 11) | (1LL << 7) | (1LL << 6))
#define MOONLET_FUSES_PRODUCTS HWY_TARGET <= HWY_AVX2
#endif
#ifdef __SANITIZE_ADDRESS__
#define HWY_DISABLED_TARGETS (MOONLET_RARE_TARGETS | (1LL << 8))
#else
#define HWY_DISABLED_TARGETS MOONLET_RARE_TARGETS
#endif
#endif
