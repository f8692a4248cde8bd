// cuda/loops/raw_source.h: what the compiler gets for a kernel that a script writes.
#pragma once

#include <string>

#include "tensor/runtime/raw_kernels.h"

namespace moonlet::cuda::loops {

// For NVRTC, or for the host's compiler in the emulation. Messages count the lines of the script's
// text, in "NAME.cu".
std::string raw_source_text(const RawSource& source, bool for_host);
// The name by which the kernel is found in its code.
std::string raw_entry_name(const std::string& name, bool for_host);

}  // namespace moonlet::cuda::loops
