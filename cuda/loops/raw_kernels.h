// cuda/loops/raw_kernels.h: kernels in CUDA C++ that scripts write (ml.cuda.kernel).
#pragma once

#include "tensor/runtime/raw_kernels.h"

namespace moonlet::cuda::loops {

// Null where nothing compiles kernels: without NVRTC of this build's toolkit.
RawKernels* raw_kernels() noexcept;

}  // namespace moonlet::cuda::loops
