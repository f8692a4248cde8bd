// tensor/runtime/backend.h: what a device backend (the CUDA plugin) offers beside its kernels, and
// the loader that opens it when a script first names one of its devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/core/device.h"
#include "tensor/core/tensor.h"
#include "tensor/runtime/memory_report.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

class StopFlag;

// Work of a device that was recorded instead of done, and is done by each replay. For one thread at
// a time; a capture ends in the interpreter and the coroutine in which it began.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // What this thread puts into the device's current stream is recorded from now on. `pool`, of
  // new_graph_pool() or another graph, says with which graphs this one shares its memory; 0: with
  // none.
  virtual void begin(int device, int64_t pool) = 0;
  virtual void end() = 0;
  // Ends a capture that is under way without a graph.
  virtual void abandon() noexcept = 0;
  // Puts the work into the current stream.
  virtual void replay() = 0;
  // Gives the work and its memory up.
  virtual void reset() = 0;
  virtual int64_t pool() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  // "NVIDIA H200", for people.
  virtual std::string device_name(int index) = 0;
  virtual void synchronize(int index) = 0;
  virtual Streams& streams() = 0;
  // Work that `stream` has or gets until the storage is freed uses its memory, which another
  // stream reuses only after that work. Nothing for memory that is not of this backend's allocator.
  virtual void record_stream(const Storage& storage, DeviceStream stream) = 0;
  // What is known of a device besides its name, as numbers by PyTorch's names for them.
  using Property = std::pair<const char*, int64_t>;
  virtual std::vector<Property> device_properties(int index) = 0;
  // Whether kernels on `index` may use the memory of `peer` directly.
  virtual bool can_access_peer(int index, int peer) = 0;
  // Copies between the host and a device, or between devices; both tensors contiguous and of the
  // same dtype and shape. Returns when `out` may be read: by the host, or in the current stream.
  virtual void transfer(Tensor& out, const Tensor& in) = 0;
  // Free and total bytes of a device.
  virtual std::pair<int64_t, int64_t> memory_info(int index) = 0;
  // The counters of a device's caching allocator, by PyTorch's names, and their resets.
  virtual MemoryStatistics memory_statistics(int index) = 0;
  virtual void reset_peak_memory_statistics(int index) = 0;
  virtual void reset_accumulated_memory_statistics(int index) = 0;
  // The share of a device's bytes that its allocator may take, from 0 to 1; 1 unless set.
  virtual void set_memory_fraction(int index, double fraction) = 0;
  virtual double memory_fraction(int index) = 0;
  // What the allocators of all devices hold, and did since history was recorded.
  virtual MemorySnapshot memory_snapshot() = 0;
  virtual void record_memory_history(const MemoryHistory& history) = 0;
  // Reads and writes no tensor data: whether it is the emulation on the host.
  virtual bool emulated() = 0;
  // Page-locked memory of the host, for all devices; throws OutOfMemory.
  virtual void* pin_memory(size_t bytes) = 0;
  virtual void unpin_memory(void* data, size_t bytes) noexcept = 0;
  virtual bool is_pinned(const void* data) noexcept = 0;
  // What kernels find wrong with values is told of at the next wait (see below). Reports `text`,
  // the whole of an error, unless all elements of a bool tensor on a device hold.
  virtual void expect_all(const Tensor& holds, const std::string& text) = 0;
  // How often this process has waited for a device.
  virtual int64_t wait_count() noexcept = 0;
  // Errors that kernels report belong to the interpreter, known by its StopFlag, whose op made
  // them. It closes: they are everybody's then.
  virtual void interpreter_closed(const StopFlag* flag) noexcept = 0;
  virtual std::unique_ptr<DeviceGraph> new_graph() = 0;
  virtual int64_t new_graph_pool() noexcept = 0;
  // Whether work in the current stream of a device is recorded.
  virtual bool is_capturing(int index) noexcept = 0;
  // cuDNN's version as one number, 91900 for 9.19.0, which opens the library; 0 where there is
  // none.
  virtual int64_t cudnn_version() = 0;
};

// The CUDA backend, loaded at the first call; null with `cuda_unavailable_reason` set otherwise.
// Quick without a GPU. Thread-safe.
Backend* cuda_backend();
// The same if it was loaded; null, without loading it, otherwise.
Backend* loaded_cuda_backend() noexcept;
// Why there is none: no plugin, no driver, no device.
const std::string& cuda_unavailable_reason();
// Throws a clear error unless `device` exists, loading its backend first.
void require_device(Device device, const char* op);
// Throws: this process was forked from one that has used CUDA.
[[noreturn]] void fail_forked(const char* op);

// For backends: the allocator of their devices while set_allocator has set none.
void set_default_allocator(DeviceType type, Allocator* allocator) noexcept;

// What a plugin says of itself, under the name kPluginInfo. It is read before anything of the
// plugin runs: with other rows or another version its kernel tables would be laid out in another
// way.
struct PluginInfo {
  char magic[16];
  uint64_t version;   // kPluginVersion of its build
  uint64_t op_table;  // kOpTableHash of its build
};
inline constexpr const char* kPluginInfo = "moonlet_cuda_info";
inline constexpr char kPluginMagic[16] = "moonlet plugin";
// Goes up when what program and plugin share changes in another way than the rows tell: Backend,
// Tensor, how kernels are called.
inline constexpr uint64_t kPluginVersion = 4;

// The plugin's one exported function; returns null with a reason when no device is usable.
using BackendEntry = Backend* (*)(std::string* reason);
inline constexpr const char* kBackendEntry = "moonlet_cuda_backend";

}  // namespace moonlet
