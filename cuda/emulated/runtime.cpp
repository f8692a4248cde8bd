// cuda/emulated/runtime.cpp: errors, virtual devices and their memory.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda_runtime_api.h"
#include "queue.h"
#include "state.h"

namespace moonlet::emulated {
namespace {

thread_local int the_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

constexpr std::size_t kAlignment = 256;

long environment(const char* name, long standard, long most) {
  const char* text = std::getenv(name);
  if (!text || !*text) return standard;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end || value < 0 ? standard : std::min(value, most);
}

/// What has been made and not destroyed, at the end of the process.
void print_left() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  std::fprintf(stderr,
               "emulated: left are %zu streams, %zu events, %zu pinned blocks, %ld graphs\n",
               s.streams.size(), s.events.size(), s.pinned.size(), s.graphs.load());
}

State* make_state() {
  auto* s = new State;
  s->devices.resize(static_cast<std::size_t>(environment("MOONLET_EMULATED_DEVICES", 2, 64)));
  s->limit = static_cast<std::size_t>(environment("MOONLET_EMULATED_MEMORY", 4096, 1L << 24)) << 20;
  s->capability = static_cast<int>(environment("MOONLET_EMULATED_CAPABILITY", 90, 999));
  s->max_shared = max_shared_of(s->capability);
  s->failing = environment("MOONLET_EMULATED_FAILING_KERNEL", 0, 1L << 40);
  if (std::getenv("MOONLET_EMULATED_LEFT")) std::atexit(print_left);
  return s;
}

bool is_device(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < state().devices.size();
}

/// The allocation that holds `address`, or the end.
Ranges::const_iterator holder(const Ranges& ranges, std::uintptr_t address) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return address - found->first < found->second ? found : ranges.end();
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  Device& device = s.devices[static_cast<std::size_t>(the_device)];
  if (bytes > s.limit - device.used) return cudaErrorMemoryAllocation;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > s.limit - device.used) return cudaErrorMemoryAllocation;
  // The sanitizer guards the bytes asked for; only the count is rounded.
  if (posix_memalign(pointer, kAlignment, bytes) != 0) {
    *pointer = nullptr;
    return cudaErrorMemoryAllocation;
  }
  device.used += rounded;
  device.blocks.emplace(reinterpret_cast<std::uintptr_t>(*pointer), bytes);
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  if (!pointer) return cudaSuccess;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (Device& device : s.devices) {
    const auto found = device.blocks.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == device.blocks.end()) continue;
    device.used -= (found->second + kAlignment - 1) / kAlignment * kAlignment;
    device.blocks.erase(found);
    std::free(pointer);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return cudaErrorInvalidValue;
  const int target = owner(to, bytes), source = owner(from, bytes);
  if (target == -2 || source == -2) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device != (target >= 0) || from_device != (source >= 0)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

/// Whether the runtime sees that memory as page-locked.
bool is_pinned(const void* pointer) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return holder(s.pinned, reinterpret_cast<std::uintptr_t>(pointer)) != s.pinned.end();
}

/// Rows of `width` bytes, one where all is in one piece.
struct Rows {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch, width, height;

  void move() const {
    for (std::size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
  }
};

/// Copies when the stream's turn comes. What is read of ordinary memory of the host is kept as it
/// is now; what is written there is waited for, as is everything between two positions of the host.
cudaError_t copy(const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  if (const cudaError_t error = device_error()) return error;
  for (std::size_t row = 0; row < rows.height; ++row)
    if (const cudaError_t error = check_copy(
            static_cast<char*>(rows.to) + row * rows.to_pitch,
            static_cast<const char*>(rows.from) + row * rows.from_pitch, rows.width, kind))
      return error;
  if (rows.width == 0 || rows.height == 0) return cudaSuccess;
  const bool captured = is_captured(stream);
  if (!runs_later() && !captured) {
    rows.move();
    return cudaSuccess;
  }
  const auto of_host = [&](const void* at) { return owner(at, 1) < 0 && !is_pinned(at); };
  if (captured && (waits || of_host(rows.from) || of_host(rows.to))) return break_capture(stream);
  WorkRef work;
  if (of_host(rows.from)) {
    auto kept = std::make_shared<std::vector<char>>(rows.width * rows.height);
    Rows{kept->data(), rows.width, rows.from, rows.from_pitch, rows.width, rows.height}.move();
    work = enqueue(stream, [rows, kept] {
      Rows{rows.to, rows.to_pitch, kept->data(), rows.width, rows.width, rows.height}.move();
    });
  } else {
    work = enqueue(stream, [rows] { rows.move(); });
  }
  if (waits || of_host(rows.to)) run_until(work);
  return device_error();
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool waits) {
  return copy(Rows{to, bytes, from, bytes, bytes, 1}, kind, stream, waits);
}

cudaError_t on_stream(cudaStream_t stream) {
  if (const cudaError_t error = device_error()) return error;
  return valid_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

State& state() {
  static State* const the_state = make_state();
  return *the_state;
}

int current_device() { return the_device; }

void put_device(int device) { the_device = device; }

cudaError_t device_error() {
  State& s = state();
  if (s.devices.empty()) return cudaErrorNoDevice;
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.devices[static_cast<std::size_t>(the_device)].sticky;
}

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void set_sticky(cudaError_t error, const std::string& why) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  Device& device = s.devices[static_cast<std::size_t>(the_device)];
  if (device.sticky == cudaSuccess) {
    device.sticky = error;
    device.failure = why;
  }
  last_error = error;
}

int owner(const void* pointer, std::size_t bytes) {
  State& s = state();
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const auto found = holder(s.devices[i].blocks, address);
    if (found == s.devices[i].blocks.end()) continue;
    const std::size_t left = found->second - (address - found->first);
    return bytes <= left ? static_cast<int>(i) : -2;
  }
  return -1;
}

}  // namespace moonlet::emulated

using namespace moonlet::emulated;

cudaError_t cudaGetLastError() {
  const cudaError_t sticky = device_error();
  const cudaError_t error = sticky && sticky != cudaErrorNoDevice ? sticky : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = device_error();
  return sticky && sticky != cudaErrorNoDevice ? sticky : last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return report(cudaErrorInvalidValue);
  *count = static_cast<int>(state().devices.size());
  return report(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  if (state().devices.empty()) return report(cudaErrorNoDevice);
  if (!is_device(device)) return report(cudaErrorInvalidDevice);
  the_device = device;
  return report(device_error());
}

cudaError_t cudaGetDevice(int* device) {
  if (!device) return report(cudaErrorInvalidValue);
  if (state().devices.empty()) return report(cudaErrorNoDevice);
  *device = the_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!properties) return report(cudaErrorInvalidValue);
  if (!is_device(device)) return report(cudaErrorInvalidDevice);
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "Emulated CUDA device %d", device);
  p.totalGlobalMem = state().limit;
  p.sharedMemPerBlock = kDefaultShared;
  p.sharedMemPerBlockOptin = state().max_shared;
  p.sharedMemPerMultiprocessor = p.sharedMemPerBlockOptin + 1024;
  p.totalConstMem = 65536;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  const int threads[3] = {1024, 1024, 64}, blocks[3] = {2147483647, 65535, 65535};
  std::copy(threads, threads + 3, p.maxThreadsDim);
  std::copy(blocks, blocks + 3, p.maxGridSize);
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.multiProcessorCount = std::max(1, omp_get_num_procs());
  p.major = state().capability / 10;
  p.minor = state().capability % 10;
  p.l2CacheSize = 4 << 20;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 1;
  p.unifiedAddressing = 1;
  p.canMapHostMemory = 1;
  p.pciDeviceID = device;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!value) return report(cudaErrorInvalidValue);
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    default: return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (is_captured_on(the_device)) return report(cudaErrorStreamCaptureUnsupported);
  run_all(the_device);
  return report(device_error());
}

cudaError_t cudaDeviceReset() {
  State& s = state();
  if (s.devices.empty()) return report(cudaErrorNoDevice);
  drop_all(the_device);
  const std::lock_guard<std::mutex> lock(s.mutex);
  Device& device = s.devices[static_cast<std::size_t>(the_device)];
  for (const auto& [address, bytes] : device.blocks) std::free(reinterpret_cast<void*>(address));
  device = Device{};
  last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!can) return report(cudaErrorInvalidValue);
  if (!is_device(device) || !is_device(peer)) return report(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags) return report(cudaErrorInvalidValue);
  if (!is_device(peer) || peer == the_device) return report(cudaErrorInvalidDevice);
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const bool added = s.peers.emplace(the_device, peer).second;
  return report(added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return report(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (const cudaError_t error = device_error()) return report(error);
  return report(allocate(pointer, bytes));
}

cudaError_t cudaFree(void* pointer) {
  if (state().devices.empty()) return report(cudaErrorNoDevice);
  // What has been issued may use it.
  if (pointer) run_all(-1);
  // A failed device still gives its memory back, so that a process can go on after the failure.
  const cudaError_t freed = release(pointer);
  const cudaError_t sticky = device_error();
  return report(sticky ? sticky : freed);
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = on_stream(stream)) return report(error);
  return report(allocate(pointer, bytes));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (!valid_stream(stream)) return report(cudaErrorInvalidResourceHandle);
  if (!runs_later()) return cudaFree(pointer);
  if (pointer && owner(pointer, 1) < 0) return report(cudaErrorInvalidValue);
  enqueue(stream, [pointer] { release(pointer); });
  return report(device_error());
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!pointer) return report(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(pointer, kAlignment, bytes) != 0) return report(cudaErrorMemoryAllocation);
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.pinned.emplace(reinterpret_cast<std::uintptr_t>(*pointer), bytes);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return cudaMallocHost(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  if (!pointer) return cudaSuccess;
  run_all(-1);
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) {
    return report(cudaErrorInvalidValue);
  }
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!free_bytes || !total_bytes) return report(cudaErrorInvalidValue);
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  *free_bytes = s.limit - s.devices[static_cast<std::size_t>(the_device)].used;
  *total_bytes = s.limit;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (!attributes) return report(cudaErrorInvalidValue);
  *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, const_cast<void*>(pointer)};
  const int device = owner(pointer, 1);
  if (device >= 0) {
    *attributes = {cudaMemoryTypeDevice, device, const_cast<void*>(pointer), nullptr};
    return cudaSuccess;
  }
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (holder(s.pinned, reinterpret_cast<std::uintptr_t>(pointer)) != s.pinned.end()) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = the_device;
    attributes->devicePointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return report(copy(to, from, bytes, kind, nullptr, true));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = on_stream(stream)) return report(error);
  return report(copy(to, from, bytes, kind, stream, false));
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return report(cudaErrorInvalidValue);
  return report(copy({to, to_pitch, from, from_pitch, width, height}, kind, nullptr, true));
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = on_stream(stream)) return report(error);
  if (width > to_pitch || width > from_pitch) return report(cudaErrorInvalidValue);
  return report(copy({to, to_pitch, from, from_pitch, width, height}, kind, stream, false));
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           std::size_t bytes) {
  // It comes after all that the devices have.
  run_all(-1);
  const cudaError_t error = cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
  run_all(-1);
  return error;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = on_stream(stream)) return report(error);
  if (!is_device(to_device) || !is_device(from_device)) return report(cudaErrorInvalidDevice);
  if (bytes == 0) return report(device_error());
  if (owner(to, bytes) != to_device || owner(from, bytes) != from_device) {
    return report(cudaErrorInvalidValue);
  }
  return report(copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false));
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = on_stream(stream)) return report(error);
  if (bytes == 0) return cudaSuccess;
  if (owner(pointer, bytes) < 0) return report(cudaErrorInvalidValue);
  enqueue(stream, [pointer, value, bytes] { std::memset(pointer, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!kernel) return report(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > state().max_shared) {
    return report(cudaErrorInvalidValue);
  }
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.shared_limits[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int block_size,
                                                          std::size_t shared_bytes) {
  if (!blocks || !kernel || block_size < 1) return report(cudaErrorInvalidValue);
  const std::size_t by_shared =
      shared_bytes ? (state().max_shared + 1024) / (shared_bytes + 1024) : 32;
  const std::size_t by_threads = block_size > 1024 ? 0 : 2048 / static_cast<unsigned>(block_size);
  *blocks = static_cast<int>(std::min({std::size_t{32}, by_shared, by_threads}));
  return cudaSuccess;
}
