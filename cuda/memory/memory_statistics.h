// cuda/memory/memory_statistics.h: the counters of one device's caching allocator, with PyTorch's
// names and meanings.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/runtime/memory_report.h"

namespace moonlet::cuda {

struct Statistic {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void change(int64_t by);
};

// Over all blocks, and those of one pool.
struct PooledStatistic {
  Statistic all, small_pool, large_pool;
  void change(bool small, int64_t by) {
    all.change(by);
    (small ? small_pool : large_pool).change(by);
  }
};

struct MemoryCounters {
  // Numbers of blocks and segments. A block is active until no stream uses it any more; inactive
  // splits are free parts of segments that are used in part.
  PooledStatistic allocation, segment, active, inactive_split;
  // Their bytes; requested ones without what sizes are rounded up by.
  PooledStatistic allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
      requested_bytes;
  // Of blocks that settings forbid to split.
  Statistic oversize_allocations, oversize_segments;
  int64_t num_alloc_retries = 0;     // times that the device refused memory
  int64_t num_ooms = 0;              // and it ended in an error
  int64_t num_sync_all_streams = 0;  // times that the streams of freed blocks were waited for
  int64_t num_device_alloc = 0, num_device_free = 0;

  void reset_peaks();
  void reset_accumulated();
  // All by name: "allocated_bytes.all.current".
  MemoryStatistics named() const;
};

}  // namespace moonlet::cuda
