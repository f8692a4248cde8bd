// tensor/cpu/common/signals.h: keeps signal handlers off a thread while it runs code whose stack
// pointer does not point to the stack.
#pragma once

#include <optional>

#include "tensor/core/platform/threads.h"

namespace moonlet::cpu {

// Blocks all signals but those that report a fault of the thread itself. What arrives meanwhile is
// delivered at the end, or to another thread. One within another's lifetime costs nothing.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    if (depth_++ == 0) mask_.emplace(false);
  }
  ~SignalsBlocked() { --depth_; }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  static inline thread_local int depth_ = 0;
  std::optional<platform::SignalMask> mask_;
};

}  // namespace moonlet::cpu
