// cuda/emulated/reach.cpp: what kernels of a device can reach: not the memory of another device
// unless access to that peer is enabled.
#include "grid.h"
#include "state.h"

namespace moonlet::emulated {

bool may_access(int device) {
  const int mine = current_device();
  if (device == mine) return true;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.peers.count({mine, device}) != 0;
}

namespace {

/// Whether more than one device has memory at all.
bool several_used() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  int used = 0;
  for (const Device& device : s.devices) used += device.blocks.empty() ? 0 : 1;
  return used > 1;
}

}  // namespace

bool in_reach(const void* const* pointers, std::size_t count) {
  if (device_error() || !several_used()) return true;
  for (std::size_t i = 0; i < count; ++i) {
    const int device = pointers[i] ? owner(pointers[i], 1) : -1;
    if (device < 0 || may_access(device)) continue;
    set_sticky(cudaErrorIllegalAddress, "a kernel was given memory of another device");
    return false;
  }
  return true;
}

}  // namespace moonlet::emulated
