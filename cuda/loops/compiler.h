// cuda/loops/compiler.h: runs the loops of programs on a device by kernels that NVRTC makes.
#pragma once

#include "tensor/runtime/backend.h"

namespace moonlet::cuda::loops {

// Null where there is no NVRTC that fits, so that ops run one by one.
LoopCompiler* compiler() noexcept;

}  // namespace moonlet::cuda::loops
