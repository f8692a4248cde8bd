// cuda/loops/device_code.h: from a source to code that a device has loaded: by NVRTC, or from the
// cache of files.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>

// Libraries of kernels are loaded by functions that the runtime has since 12.8.
#if CUDART_VERSION >= 12080
#define MOONLET_HAS_LOOPS 1
#endif

namespace moonlet::cuda::loops {

// The compute capability of a device, 90 for 9.0.
int capability_of(int device, const char* op);

// Hands the code of a source to `load`, which says whether the device takes it. What is compiled
// goes into the cache. `more`: options of the compiler beside its own, a line each. Throws with the
// compiler's messages.
void load_code(const std::string& source, int capability, const std::string& more, const char* op,
               const std::function<bool(const std::string& code)>& load);

}  // namespace moonlet::cuda::loops
