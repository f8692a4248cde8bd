// cuda/emulated/cudnn_calls.h: what the calls of the emulated cuDNN share: the handle, the words of
// the environment, and failures.
#pragma once

#include <cstdlib>
#include <string_view>

#include "cudnn.h"
#include "failures.h"
#include "state.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace moonlet::emulated {

/// Whether MOONLET_EMULATED_CUDNN has that word.
inline bool says(std::string_view word) {
  const char* value = std::getenv("MOONLET_EMULATED_CUDNN");
  return value != nullptr && std::string_view(value).find(word) != std::string_view::npos;
}

/// What a call that is to fail by the environment's word returns.
inline cudnnStatus_t injected() {
  switch (failure()) {
    case cudaErrorMemoryAllocation: return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    case cudaErrorInvalidValue: return CUDNN_STATUS_BAD_PARAM;
    case cudaErrorLaunchFailure: return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    default: return CUDNN_STATUS_EXECUTION_FAILED;
  }
}

#define MOONLET_MAY_FAIL(name) \
  if (fails(name)) return injected()

inline cudnnStatus_t illegal_address() {
  set_sticky(cudaErrorIllegalAddress, "cuDNN was given memory outside every device allocation");
  return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

}  // namespace moonlet::emulated
