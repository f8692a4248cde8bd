// autograd/unstoppable.h: scopes that a stop does not leave half done.
#pragma once

#include <utility>

#include "tensor/memory/budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {

// Keeps requests to stop waiting for a C++ scope: a gradient that was added to in part would be
// neither the old one nor the new one.
class Unstoppable {
 public:
  Unstoppable() : before_(std::exchange(execution.stop, &never_stopped)) {}
  ~Unstoppable() { execution.stop = before_; }
  Unstoppable(const Unstoppable&) = delete;
  Unstoppable& operator=(const Unstoppable&) = delete;

 private:
  StopFlag* const before_;
};

// The same, and lets an interpreter pass its limit of memory: a tensor that was changed in place
// must get the history of that, and the change must not be made once more.
class HistoryOfChange {
  const Unstoppable whole_;
  const memory::Overdraft unbounded_;
};

}  // namespace moonlet
