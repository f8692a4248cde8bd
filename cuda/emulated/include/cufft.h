// cuda/emulated/include/cufft.h: the part of cuFFT that the backend uses, answered by plain loops
// in a library of its own, which the backend opens as it opens the real one. cufftXt.h has the
// rest.
#pragma once

#include <cstddef>

#include "cuda_runtime_api.h"
#include "library_types.h"

using cufftHandle = int;

enum cufftResult {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_ALLOC_FAILED = 2,
  CUFFT_INVALID_TYPE = 3,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_INTERNAL_ERROR = 5,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_SETUP_FAILED = 7,
  CUFFT_INVALID_SIZE = 8,
  CUFFT_INVALID_DEVICE = 11,
  CUFFT_NO_WORKSPACE = 13,
  CUFFT_NOT_IMPLEMENTED = 14,
  CUFFT_NOT_SUPPORTED = 16,
};

#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1

extern "C" {
cufftResult cufftCreate(cufftHandle* handle);
cufftResult cufftDestroy(cufftHandle handle);
cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic);
cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream);
cufftResult cufftSetWorkArea(cufftHandle handle, void* area);
}
