// tensor/modes.h: the stack of modes. Every public op tests it once; when it is not empty, the
// innermost mode gets the call with boxed arguments instead, and may change it, replace it or let
// it go on to the modes below and the op itself.
#pragma once

#include <tuple>
#include <utility>

#include "tensor/execution.h"
#include "tensor/op_info.h"

namespace moonlet {

class Mode {
 public:
  Mode() = default;
  virtual ~Mode() = default;
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

  // One call of a public op. While it runs, this mode is not on the stack: `op.call` goes on.
  virtual void call(const OpInfo& op, Values& arguments, Values& results) = 0;

 private:
  friend class ModeScope;
  friend void intercept(const OpInfo& op, Values& arguments, Values& results);
  Mode* below_ = nullptr;
};

// Puts a mode on the stack of this thread for a C++ scope.
class ModeScope {
 public:
  explicit ModeScope(Mode& mode) : before_(execution.modes) {
    mode.below_ = before_;
    execution.modes = &mode;
  }
  ~ModeScope() { execution.modes = before_; }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  Mode* const before_;
};

// Takes all modes off for a C++ scope: for ops of the system's own that are nobody's business.
class NoModes {
 public:
  NoModes() : before_(std::exchange(execution.modes, nullptr)) {}
  ~NoModes() { execution.modes = before_; }
  NoModes(const NoModes&) = delete;
  NoModes& operator=(const NoModes&) = delete;

 private:
  Mode* const before_;
};

// Whether some mode wants to see the ops of this thread.
inline bool intercepted() noexcept { return execution.modes != nullptr; }

// Hands a call to the innermost mode.
void intercept(const OpInfo& op, Values& arguments, Values& results);

}  // namespace moonlet
