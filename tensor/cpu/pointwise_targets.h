// tensor/cpu/pointwise_targets.h: the instruction sets pointwise kernels are compiled for: few,
// so that a family compiles fast. Include before any Highway header.
#pragma once

// SSSE3 and AVX3_DL add little beside SSE4 and AVX3.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS ((1LL << 12) | (1LL << 7) | (1LL << 6))
#endif
