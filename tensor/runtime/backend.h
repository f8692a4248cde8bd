// tensor/runtime/backend.h: what backends offer: devices with kernels and memory of their own, and
// what only some have: streams, graphs, page-locked memory. A backend is registered by its name and
// opened when a script first names one of its devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/core/device.h"
#include "tensor/core/tensor.h"
#include "tensor/runtime/memory_report.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

class Communicators;
class RecurrentNetworks;
class StopFlag;
struct KernelTable;

// Work of a device that was recorded instead of done, and is done by each replay. For one thread at
// a time; a capture ends in the interpreter and the coroutine in which it began.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // What this thread puts into the device's current stream is recorded from now on. `pool`, of
  // DeviceGraphs::new_pool or another graph, says with which graphs this one shares its memory; 0:
  // with none.
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

class DeviceGraphs {
 public:
  virtual ~DeviceGraphs() = default;
  virtual std::unique_ptr<DeviceGraph> new_graph() = 0;
  virtual int64_t new_pool() noexcept = 0;
  // Whether work in the current stream of a device is recorded.
  virtual bool is_capturing(int index) noexcept = 0;
};

// Page-locked memory of the host, for all devices of a backend: copies from and to it need not be
// waited for.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
  // Throws OutOfMemory.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data, size_t bytes) noexcept = 0;
  virtual bool holds(const void* data) noexcept = 0;
};

// What is known of the allocators of devices.
class DeviceMemoryReports {
 public:
  virtual ~DeviceMemoryReports() = default;
  // Free and total bytes of a device.
  virtual std::pair<int64_t, int64_t> free_and_total(int index) = 0;
  // The counters of a device's caching allocator, by PyTorch's names, and their resets.
  virtual MemoryStatistics statistics(int index) = 0;
  virtual void reset_peaks(int index) = 0;
  virtual void reset_accumulated(int index) = 0;
  // The share of a device's bytes that its allocator may take, from 0 to 1; 1 unless set.
  virtual void set_fraction(int index, double fraction) = 0;
  virtual double fraction(int index) = 0;
  // What the allocators of all devices hold, and did since history was recorded.
  virtual MemorySnapshot snapshot() = 0;
  virtual void record_history(const MemoryHistory& history) = 0;
};

// Errors that kernels find while the host goes on, and that its next wait throws.
class DeferredErrors {
 public:
  virtual ~DeferredErrors() = default;
  // Reports `text`, the whole of an error, unless all elements of a bool tensor on a device hold.
  virtual void expect_all(const Tensor& holds, const std::string& text) = 0;
  // How often this process has waited for a device.
  virtual int64_t wait_count() noexcept = 0;
  // They belong to the interpreter, known by its StopFlag, whose op made them. It closes: they are
  // everybody's then.
  virtual void interpreter_closed(const StopFlag* flag) noexcept = 0;
};

// Makes what runs the loops of programs (tensor/program/fusion/loop.h) on devices.
namespace program {
struct Loop;
class LoopExecutor;
}  // namespace program
class LoopCompiler {
 public:
  virtual ~LoopCompiler() = default;
  // Null for a loop whose ops are to run one by one. Thread-safe.
  virtual std::unique_ptr<const program::LoopExecutor> compile(const program::Loop& loop) = 0;
};

// Kernels that scripts write (tensor/runtime/raw_kernels.h).
class RawKernels;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  // "NVIDIA H200", for people.
  virtual std::string device_name(int index) = 0;
  virtual const KernelTable& kernels() = 0;
  // That of its devices while set_allocator has set none.
  virtual Allocator& allocator() = 0;
  // Copies between the host and a device, or between devices of this backend; both tensors
  // contiguous and of the same dtype and shape. Returns when `out` may be read: by the host, or in
  // the current stream.
  virtual void transfer(Tensor& out, const Tensor& in) = 0;
  // Waits for all work of a device.
  virtual void synchronize(int index) = 0;

  // What not every backend has: null where this one does not.
  virtual Streams* streams() noexcept { return nullptr; }
  virtual DeviceGraphs* graphs() noexcept { return nullptr; }
  virtual PinnedMemory* pinned_memory() noexcept { return nullptr; }
  virtual DeviceMemoryReports* memory_reports() noexcept { return nullptr; }
  virtual DeferredErrors* deferred_errors() noexcept { return nullptr; }
  virtual LoopCompiler* loop_compiler() noexcept { return nullptr; }
  virtual RawKernels* raw_kernels() noexcept { return nullptr; }
  virtual Communicators* communicators() noexcept { return nullptr; }
  // In one call (tensor/runtime/recurrent_networks.h).
  virtual RecurrentNetworks* recurrent_networks() noexcept { return nullptr; }

  // What is known of a device besides its name, as numbers by PyTorch's names for them.
  using Property = std::pair<const char*, int64_t>;
  virtual std::vector<Property> device_properties(int) { return {}; }
  // Whether kernels on `index` may use the memory of `peer` directly.
  virtual bool can_access_peer(int /*index*/, int /*peer*/) { return false; }
  // The version of a library of that name as one number, 91900 for cuDNN 9.19.0, which opens it; 0
  // where there is none.
  virtual int64_t library_version(std::string_view) { return 0; }
  // Whether the devices are an emulation on the host.
  virtual bool emulated() { return false; }
};

// --- the registry --------------------------------------------------------------------------------

struct BackendInfo {
  const char* name;   // its devices are NAME:0, NAME:1
  const char* title;  // in errors
  // Makes the backend, which lives as long as the process, or returns null with the reason why its
  // devices cannot be used. Called once, at the first use of one.
  Backend* (*open)(DeviceType type, std::string* reason);
};
// Adds a kind of device; the strings must live as long as the process. Throws when the name is
// taken or there are too many. Thread-safe.
DeviceType register_backend(const BackendInfo& info);
const char* title_of(DeviceType type);

// The backend of a kind other than the CPU, opened at the first call; null where it cannot be used,
// for which unavailable_reason says why. Quick then too. Thread-safe.
Backend* backend_of(DeviceType type);
const std::string& unavailable_reason(DeviceType type);
// The same; throws naming `op` where it cannot be used.
Backend& require_backend(DeviceType type, const char* op);
// The same if it was opened; null, without opening it, otherwise.
Backend* opened_backend(DeviceType type) noexcept;
// Calls f with each backend that was opened, and its kind.
template <class F>
void for_each_opened_backend(F&& f) {
  for (const DeviceType type : device_types())
    if (Backend* backend = opened_backend(type)) f(*backend, type);
}
// Page-locked memory of the first backend that can be used and has it, or null. Opens backends.
PinnedMemory* pinned_memory();
// Throws a clear error unless `device` exists, opening its backend first.
void require_device(Device device, const char* op);
// Throws: this process was forked from one that has used devices of that kind.
[[noreturn]] void fail_forked(DeviceType type, const char* op);

// --- plugins -------------------------------------------------------------------------------------

// What a plugin says of itself, under the name kPluginInfo. It is read before anything of the
// plugin runs: with other rows or another version its kernel tables would be laid out in another
// way.
struct PluginInfo {
  char magic[16];
  uint64_t version;   // kPluginVersion of its build
  uint64_t op_table;  // kOpTableHash of its build
};
inline constexpr const char* kPluginInfo = "moonlet_plugin_info";
inline constexpr char kPluginMagic[16] = "moonlet plugin";
// Goes up when what program and plugin share changes in another way than the rows tell: Backend,
// Tensor, how kernels are called.
inline constexpr uint64_t kPluginVersion = 9;

// The plugin's one exported function, as BackendInfo::open.
using BackendEntry = Backend* (*)(DeviceType type, std::string* reason);
inline constexpr const char* kBackendEntry = "moonlet_open_backend";

// Opens the backend of a plugin: moonlet-NAME.so beside the program, in folder NAME of the build or
// where MOONLET_NAME_PLUGIN (in capitals) says.
Backend* open_plugin_backend(DeviceType type, std::string* reason);

}  // namespace moonlet
