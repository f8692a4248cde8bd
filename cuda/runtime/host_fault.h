// cuda/runtime/host_fault.h: what the host finds wrong with work of a device while nobody waits for
// it, and the next wait throws.
#pragma once

#include <string>

namespace moonlet::cuda {

struct FaultSlot;

// The slot of the running interpreter on a device, for threads that have none.
struct HostFault {
  FaultSlot* slot = nullptr;
  // The next wait for the device throws the text.
  void report(const std::string& text) const noexcept;
};
HostFault host_fault(int device);

}  // namespace moonlet::cuda
