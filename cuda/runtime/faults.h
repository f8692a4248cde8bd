// cuda/runtime/faults.h: what kernels find wrong with values (positions, classes, divisors) and
// cannot throw: the first of it is written to a slot in the host's memory, and the next wait throws
// it.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/core/tensor.h"

namespace moonlet::cuda {

enum class Fault : int { Position, Target, Division, Condition };

// What a kernel writes, in memory of the host that devices see.
struct FaultSlot {
  int written;  // not 0 once the rest is there
  Fault fault;
  const char* op;  // an address of the host
  int64_t value, size;
};

// How a kernel says what is wrong, one of its arguments (see report in faults.cuh). Only the first
// fault is kept until the host has read it.
struct Reporter {
  FaultSlot* slot;
  unsigned* taken;  // in the device's memory, where its threads decide who is first
  const char* op;
  Fault fault;
};

// For kernels that the running interpreter launches on a device. `op` must last as long as the
// process; for a fault of kind Condition it is the whole text of the error.
Reporter reporter(int device, const char* op, Fault fault);

// After a wait for work of a device: throws what kernels of the running interpreter reported there
// before, once. Threads without an interpreter get that of any, and everybody gets that of such
// threads and of interpreters that have closed.
void throw_reported(int device, const char* waiter);

// An interpreter, known by its StopFlag, closes: what its kernels report is for whoever waits.
void disown_faults(const void* owner) noexcept;

// Reports `text`, a lasting one, unless all elements of a bool tensor on a device hold.
void expect_all(const Tensor& holds, const char* text);

// The same text at the same address for the rest of the process.
const char* lasting(const std::string& text);

// How often the host has waited for a device.
int64_t wait_count() noexcept;
void count_wait() noexcept;

}  // namespace moonlet::cuda
