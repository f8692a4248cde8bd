// tensor/runtime/memory_report.h: what a device backend tells of its memory: segments, the blocks
// they are cut into, and the events of its allocator.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace moonlet {

// A line of a script.
struct MemoryFrame {
  std::string filename;
  std::string name;  // of the function, or empty
  int line = 0;
};
// The lines of the calls that led to an allocation, innermost first; null when none were recorded.
using MemoryPosition = std::shared_ptr<const std::vector<MemoryFrame>>;

struct MemoryBlock {
  uint64_t address = 0;
  int64_t size = 0;
  int64_t requested_size = 0;  // what was asked for; 0 for free blocks
  // "active_allocated", "active_pending_free" (freed while other streams may still use it) or
  // "inactive".
  const char* state = "";
  MemoryPosition position;
};

struct MemorySegment {
  int device = 0;
  uint64_t address = 0;
  uint64_t stream = 0;
  bool small = false;
  int64_t total_size = 0, allocated_size = 0, active_size = 0, requested_size = 0;
  std::vector<MemoryBlock> blocks;  // by address
};

struct MemoryEvent {
  // "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom",
  // "snapshot".
  const char* action = "";
  uint64_t address = 0;  // of "oom": the device's free bytes
  int64_t size = 0;
  uint64_t stream = 0;
  int64_t time_us = 0;  // since 1970
  MemoryPosition position;
};

struct MemorySnapshot {
  std::vector<MemorySegment> segments;          // by device and address
  std::vector<std::vector<MemoryEvent>> trace;  // by device, oldest first
};

// What the allocator records from now on.
struct MemoryHistory {
  bool positions = false;                                     // lines of scripts, of blocks in use
  bool events = false;                                        // the trace
  bool event_positions = false;                               // lines of scripts for frees as well
  int64_t max_entries = std::numeric_limits<int64_t>::max();  // of each device's trace
  bool clear = false;                                         // forgets the trace until now
  // Where the script is that runs on this thread.
  MemoryPosition (*where)() noexcept = nullptr;
};

// Counters by name, in order.
using MemoryStatistics = std::vector<std::pair<std::string, int64_t>>;

}  // namespace moonlet
