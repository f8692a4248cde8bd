// cuda/runtime/transfer.cpp: copies between the host and a device, and between devices.
#include <mutex>
#include <set>
#include <utility>

#include "cuda/memory/pinned.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/streams.h"

namespace moonlet::cuda {
namespace {

// Lets the devices use each other's memory directly where that works, so that copies between them
// do not go through the host. Once for each pair.
void enable_peer_access(int a, int b) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::pair<int, int>>& done = *new std::set<std::pair<int, int>>;
  const std::lock_guard lock(mutex);
  for (const auto& [device, peer] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!done.insert({device, peer}).second) continue;
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, device, peer) != cudaSuccess || can == 0) {
      cudaGetLastError();
      continue;
    }
    const DeviceGuard guard(device, "to");
    // A host's program may have done it; where it fails the copy goes another way.
    if (cudaDeviceEnablePeerAccess(peer, 0) != cudaSuccess) cudaGetLastError();
  }
}

// In the stream of the device it comes from, after what the other one's stream has, which then
// waits for it; the host waits for nothing.
void transfer_between(Tensor& out, const Tensor& in, size_t bytes) {
  const int to = out.device().index, from = in.device().index;
  for (int device : {to, from})
    refuse_in_capture(current_stream(device), "to", "a copy between devices");
  enable_peer_access(to, from);
  const DeviceStream source = moonlet::current_stream(from), target = moonlet::current_stream(to);
  wait_stream(source, target);
  {
    const DeviceGuard guard(from, "to");
    ensure(cudaMemcpyPeerAsync(out.raw(), to, in.raw(), from, bytes, stream_of(source)), "to");
  }
  wait_stream(target, source);
}

}  // namespace

void transfer(Tensor& out, const Tensor& in) {
  const size_t bytes = static_cast<size_t>(in.numel()) * size_of(in.dtype());
  if (bytes == 0) return;
  constexpr const char* op = "to";
  const Device to = out.device(), from = in.device();
  if (!to.is_cpu() && !from.is_cpu() && to.index != from.index)
    return transfer_between(out, in, bytes);
  const int device = !to.is_cpu() ? to.index : from.index;
  const DeviceGuard guard(device, op);
  const cudaStream_t stream = current_stream(device);
  const auto kind = to.is_cpu()     ? cudaMemcpyDeviceToHost
                    : from.is_cpu() ? cudaMemcpyHostToDevice
                                    : cudaMemcpyDeviceToDevice;
  if (to != from)
    refuse_in_capture(stream, op, !to.is_cpu() ? "a copy from the host" : "a copy to the host");
  ensure(cudaMemcpyAsync(out.raw(), in.raw(), bytes, kind, stream), op);
  if (kind == cudaMemcpyDeviceToDevice) return;
  const void* const host = !to.is_cpu() ? in.raw() : out.raw();
  if (is_pinned(host)) {
    if (!device_state.copies_wait) return note_pinned_use(host, moonlet::current_stream(device));
  } else if (!to.is_cpu() && !waits_for_kernels()) {
    return;  // Ordinary memory has been read when the call returns, but is written later.
  }
  wait_for(stream, device, op);
}

}  // namespace moonlet::cuda
