// tensor/runtime/passed_modes.h: the modes that an op which is no composite has passed on its way
// down the stack, while it runs and is recorded. No mode is on the stack then; what the tape saves
// is still the business of some (autograd/saved_hooks.h).
#pragma once

#include <utility>

#include "tensor/runtime/modes.h"

namespace moonlet {

// The innermost first; null where no mode is active, or inside a composite.
extern constinit thread_local ModeEntry* passed_modes;

// Sets them for a C++ scope.
class PassedModesScope {
 public:
  explicit PassedModesScope(ModeEntry* modes) : before_(std::exchange(passed_modes, modes)) {}
  ~PassedModesScope() { passed_modes = before_; }
  PassedModesScope(const PassedModesScope&) = delete;
  PassedModesScope& operator=(const PassedModesScope&) = delete;

 private:
  ModeEntry* const before_;
};

}  // namespace moonlet
