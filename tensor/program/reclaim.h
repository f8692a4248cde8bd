// tensor/program/reclaim.h: what a run of a plan does when memory runs out: who runs it, as an
// interpreter with a collector, may let go of memory; then the step that failed runs once more, and
// those before it do not.
#pragma once

#include "tensor/core/error.h"

namespace moonlet::program {

// Lets runs on this thread ask for memory, for a C++ scope.
class Reclaimer {
 public:
  Reclaimer();
  virtual ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;
  // Lets go of what nobody needs. Must not throw.
  virtual void reclaim() = 0;

 private:
  Reclaimer* const before_;
};

// The innermost of this thread, or null.
Reclaimer* current_reclaimer();

// Runs f, and once more where memory ran out and there is a reclaimer.
template <class F>
void with_memory(F&& f) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    if (current_reclaimer() == nullptr) throw;
  }
  current_reclaimer()->reclaim();
  f();
}

}  // namespace moonlet::program
