// scripts/extension_lltm/lltm.h: the loops of lltm.cu, on memory of a CUDA device and a stream of
// it.
#pragma once

#include <cstdint>

void lltm_forward_cuda(float* gates, const float* cell, float* new_h, float* new_cell, int64_t rows,
                       int64_t state, void* stream);
void lltm_backward_cuda(const float* gates, const float* new_cell, const float* grad_h,
                        const float* grad_cell, float* grad_gates, float* grad_old, int64_t rows,
                        int64_t state, void* stream);
