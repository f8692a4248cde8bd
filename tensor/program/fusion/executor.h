// tensor/program/fusion/executor.h: what runs a loop.
#pragma once

#include <memory>

#include "tensor/program/fusion/loop.h"

namespace moonlet::program {

// Immutable: threads may run one at once. No allocation and no lock while it runs.
class LoopExecutor {
 public:
  virtual ~LoopExecutor() = default;
  // `addresses[i]` is that of slot i. Memory of slots may only overlap as the loop says. Throws as
  // the ops do (integer division by zero), and Interrupted.
  virtual void run(char* const* addresses) const = 0;
  // Whether it is machine code.
  virtual bool is_compiled() const { return false; }
};

// The best executor for the loop on its device. Null where a device has none for this loop, whose
// nodes then run one by one; throws where it has none at all.
std::unique_ptr<const LoopExecutor> make_executor(const Loop& loop);
// Whether loops can run on such devices; where not, the nodes run one by one.
bool has_executor(DeviceType type);

}  // namespace moonlet::program
