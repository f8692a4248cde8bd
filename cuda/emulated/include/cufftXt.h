// cuda/emulated/include/cufftXt.h: cuFFT's plans of any layout and type. Sizes above 2^13 points
// are refused, as the real library refuses some; strides are 1 only.
#pragma once

#include "cufft.h"

extern "C" {
cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long* in,
                                long long in_stride, long long in_step, cudaDataType in_type,
                                long long* out, long long out_stride, long long out_step,
                                cudaDataType out_type, long long count, std::size_t* workspace,
                                cudaDataType type);
cufftResult cufftXtExec(cufftHandle handle, void* in, void* out, int direction);
}
