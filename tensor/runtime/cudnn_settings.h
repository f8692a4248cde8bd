// tensor/runtime/cudnn_settings.h: what scripts say about cuDNN, by PyTorch's names and with its
// defaults (torch.backends.cudnn). They belong to an interpreter and are kept per coroutine, as the
// execution state (tensor/runtime/execution.h) is; a thread without one has its own.
#pragma once

#include <cstdint>

namespace moonlet {

struct CudnnSettings {
  bool enabled = true;           // whether ops of CUDA devices may go to cuDNN
  bool benchmark = false;        // whether algorithms are timed when a shape is new
  bool deterministic = false;    // whether only those are taken whose results repeat
  bool allow_tf32 = true;        // whether factors of float32 may be rounded to TF32
  int32_t benchmark_limit = 10;  // how many algorithms are timed; 0 for all
  bool attention = true;         // whether attention may go to cuDNN (enable_cudnn_sdp)
};

extern constinit thread_local CudnnSettings cudnn_settings;

}  // namespace moonlet
