// cuda/runtime/capability.h: which devices the plugin has machine code for.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace moonlet::cuda {

// Whether code for these architectures ("80,90"; the last is there in a form that drivers translate
// too) runs on a device of that compute capability, as 10 * major + minor. Machine code runs on
// devices of the same major number that are no older.
inline bool has_code_for(std::string_view architectures, int capability) {
  int last = 0;
  while (!architectures.empty()) {
    const std::string one(architectures.substr(0, architectures.find(',')));
    architectures.remove_prefix(std::min(architectures.size(), one.size() + 1));
    last = std::atoi(one.c_str());
    if (last / 10 == capability / 10 && last <= capability) return true;
  }
  return last <= capability;
}

// Throws unless this build has code for the device; asks it once.
void require_code_for(int device);

}  // namespace moonlet::cuda
