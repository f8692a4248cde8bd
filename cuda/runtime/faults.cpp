// cuda/runtime/faults.cpp: the slots of each device, one for each interpreter that has launched
// kernels that may report, and the errors made of what is in them.
#include "cuda/runtime/faults.h"

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "cuda/runtime/device.h"
#include "cuda/runtime/host_fault.h"
#include "tensor/runtime/execution.h"
#include "tensor/shapes/index.h"

namespace moonlet::cuda {

namespace {

constexpr size_t kSlots = 64;
std::atomic<int64_t> waits{0};

// The slots of one device. Those whose owner is null are free, or of an interpreter that closed.
struct Table {
  FaultSlot* slots = nullptr;
  unsigned* taken = nullptr;
  cudaStream_t stream = nullptr;  // of its own, to empty slots without waiting for other work
  std::array<const void*, kSlots> owners{};
  size_t used = 0;  // those from here on were never given out
};

struct Tables {
  std::mutex mutex;
  std::map<int, Table> list;
};

// Never destroyed, since kernels may run to the end.
Tables& tables() {
  static Tables& it = *new Tables;
  return it;
}

// Interpreters are told apart by their stop flags.
const void* running() { return execution.stop; }

bool is_written(const FaultSlot& slot) {
  return __atomic_load_n(&slot.written, __ATOMIC_ACQUIRE) != 0;
}

Table make_table(int device) {
  const DeviceGuard guard(device, "cuda");
  Table out;
  try {
    void* slots = nullptr;
    ensure(cudaHostAlloc(&slots, kSlots * sizeof(FaultSlot),
                         cudaHostAllocPortable | cudaHostAllocMapped),
           "cuda");
    out.slots = static_cast<FaultSlot*>(slots);
    for (size_t i = 0; i < kSlots; ++i) out.slots[i] = FaultSlot{};
    ensure(cudaMalloc(&out.taken, kSlots * sizeof(unsigned)), "cuda");
    ensure(cudaStreamCreateWithFlags(&out.stream, cudaStreamNonBlocking), "cuda");
    ensure(cudaMemsetAsync(out.taken, 0, kSlots * sizeof(unsigned), out.stream), "cuda");
    ensure(cudaStreamSynchronize(out.stream), "cuda");
  } catch (...) {
    if (out.stream != nullptr) cudaStreamDestroy(out.stream);
    if (out.taken != nullptr) cudaFree(out.taken);
    if (out.slots != nullptr) cudaFreeHost(out.slots);
    cudaGetLastError();
    throw;
  }
  return out;
}

// The number of the running interpreter's slot. When all are given out, the last is everybody's.
size_t own_slot(Table& table) {
  const void* owner = running();
  size_t unowned = table.used;
  for (size_t i = 0; i < table.used; ++i) {
    if (table.owners[i] == owner) return i;
    if (table.owners[i] == nullptr && !is_written(table.slots[i])) unowned = i;
  }
  if (unowned + 1 >= kSlots) {
    table.used = kSlots;
    return kSlots - 1;
  }
  if (unowned == table.used) ++table.used;
  table.owners[unowned] = owner;
  return unowned;
}

// What the op would have thrown, had it been able to.
std::string text_of(const FaultSlot& slot) {
  switch (slot.fault) {
    case Fault::Position: try { shapes::fail_position(slot.op, slot.value, slot.size);
      } catch (const Error& error) {
        return error.what();
      }
    case Fault::Target:
      return text(slot.op, ": target ", slot.value, " is no class of 1 to ", slot.size);
    case Fault::Division: return text(slot.op, ": integer division by zero");
    case Fault::Condition: break;
  }
  return slot.op;
}

// Takes the first fault that the running interpreter is to hear of out of its slot.
bool take(int device, std::string& out) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().list.find(device);
  if (found == tables().list.end()) return false;
  Table& table = found->second;
  const void* const owner = running();
  for (size_t i = 0; i < table.used; ++i) {
    const void* const made = table.owners[i];
    const bool meant =
        made == owner || made == nullptr || made == &never_stopped || owner == &never_stopped;
    if (!meant || !is_written(table.slots[i])) continue;
    out = text_of(table.slots[i]);
    table.slots[i].written = 0;
    // Before anything is launched that may report.
    try {
      const DeviceGuard guard(device, "cuda");
      ensure(cudaMemsetAsync(table.taken + i, 0, sizeof(unsigned), table.stream), "cuda");
      ensure(cudaStreamSynchronize(table.stream), "cuda");
    } catch (...) {
      // Nothing can be reported there until it is emptied, which the next wait tries.
      table.slots[i].written = 1;
      throw;
    }
    return true;
  }
  return false;
}

}  // namespace

Reporter reporter(int device, const char* op, Fault fault) {
  const std::lock_guard lock(tables().mutex);
  auto found = tables().list.find(device);
  if (found == tables().list.end()) found = tables().list.emplace(device, make_table(device)).first;
  const size_t at = own_slot(found->second);
  return {found->second.slots + at, found->second.taken + at, op, fault};
}

HostFault host_fault(int device) { return {reporter(device, "", Fault::Condition).slot}; }

void HostFault::report(const std::string& text) const noexcept {
  if (is_written(*slot)) return;
  slot->op = lasting(text);
  slot->fault = Fault::Condition;
  __atomic_store_n(&slot->written, 1, __ATOMIC_RELEASE);
}

void throw_reported(int device, const char* waiter) {
  std::string what;
  if (!take(device, what)) [[likely]]
    return;
  if (waits_for_kernels()) throw Error(what);
  fail(waiter, ": an earlier op on ", device_of(device), " failed: ", what,
       "; with MOONLET_CUDA_SYNC=1 in the environment it fails where it is called");
}

void disown_faults(const void* owner) noexcept {
  const std::lock_guard lock(tables().mutex);
  for (auto& [device, table] : tables().list)
    for (const void*& one : table.owners)
      if (one == owner) one = nullptr;
}

const char* lasting(const std::string& text) {
  static std::mutex& mutex = *new std::mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

int64_t wait_count() noexcept { return waits.load(std::memory_order_relaxed); }
void count_wait() noexcept { waits.fetch_add(1, std::memory_order_relaxed); }

}  // namespace moonlet::cuda
