// tensor/runtime/execution.h: the execution state of this thread: what ops consult beside their
// arguments. It belongs to an interpreter, which installs its own while it runs, and is kept per
// coroutine; a thread without an interpreter has one of its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/core/device.h"
#include "tensor/core/dtype.h"

namespace moonlet {

class Generator;
class StopFlag;
struct ModeEntry;
namespace program {
class Capture;
}
enum class Float32Precision : uint8_t;

// The flag of threads that no interpreter runs on: nobody requests a stop of it.
extern constinit StopFlag never_stopped;

// Small and copied as a whole: installing a state copies it in, leaving copies it out again.
struct ExecutionState {
  ModeEntry* modes = nullptr;   // the innermost interception (tensor/runtime/modes.h), or null
  bool grad_mode = true;        // whether ops are recorded
  bool inference_mode = false;  // whether new storages are unknown to the tape (Storage)
  DType default_dtype = DType::Float32;
  Device default_device = {};            // where new tensors are made unless it is said
  Float32Precision float32_precision{};  // of products on devices that may be faster
  Generator* generator = nullptr;        // the default one; null stands for the thread's own
  bool reads_environment = true;         // whether variables of the environment are looked at
  StopFlag* stop = &never_stopped;  // asks long kernels to give up (tensor/runtime/interrupt.h)
  uint64_t vmap = 0;                // the innermost vmap that runs (tensor/runtime/batched.h), or 0
  program::Capture* capture = nullptr;  // writes ops down (tensor/program/capture.h), or null
};

// Read and written directly: one load on the path of every op.
extern constinit thread_local ExecutionState execution;

// How many vmaps and captures there are in the process. While there is none, ops go from the tape
// to their kernel with nothing to ask.
extern constinit std::atomic<int> below_tape;
inline bool any_below_tape() noexcept { return below_tape.load(std::memory_order_relaxed) != 0; }

// Installs `state` for a C++ scope; what it has become is stored back at the end.
class ExecutionScope {
 public:
  explicit ExecutionScope(ExecutionState& state) : state_(state), before_(execution) {
    execution = state;
  }
  ~ExecutionScope() {
    state_ = execution;
    execution = before_;
  }
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  ExecutionState& state_;
  const ExecutionState before_;
};

}  // namespace moonlet
