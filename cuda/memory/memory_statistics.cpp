// cuda/memory/memory_statistics.cpp: changes, resets and names of the allocator's counters.
#include "cuda/memory/memory_statistics.h"

#include <algorithm>
#include <string>

namespace moonlet::cuda {
namespace {

// visit(name, statistic) for every one of the counters.
template <class Counters, class Visit>
void each(Counters& c, const Visit& visit) {
  const auto pooled = [&](const std::string& name, auto& statistic) {
    visit(name + ".all", statistic.all);
    visit(name + ".large_pool", statistic.large_pool);
    visit(name + ".small_pool", statistic.small_pool);
  };
  pooled("active", c.active);
  pooled("active_bytes", c.active_bytes);
  pooled("allocated_bytes", c.allocated_bytes);
  pooled("allocation", c.allocation);
  pooled("inactive_split", c.inactive_split);
  pooled("inactive_split_bytes", c.inactive_split_bytes);
  visit("oversize_allocations", c.oversize_allocations);
  visit("oversize_segments", c.oversize_segments);
  pooled("requested_bytes", c.requested_bytes);
  pooled("reserved_bytes", c.reserved_bytes);
  pooled("segment", c.segment);
}

}  // namespace

void Statistic::change(int64_t by) {
  current += by;
  peak = std::max(peak, current);
  (by > 0 ? allocated : freed) += by > 0 ? by : -by;
}

void MemoryCounters::reset_peaks() {
  each(*this, [](const std::string&, Statistic& s) { s.peak = s.current; });
}

void MemoryCounters::reset_accumulated() {
  each(*this, [](const std::string&, Statistic& s) { s.allocated = s.freed = 0; });
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
}

MemoryStatistics MemoryCounters::named() const {
  MemoryStatistics out;
  each(*this, [&](const std::string& name, const Statistic& s) {
    out.emplace_back(name + ".allocated", s.allocated);
    out.emplace_back(name + ".current", s.current);
    out.emplace_back(name + ".freed", s.freed);
    out.emplace_back(name + ".peak", s.peak);
  });
  out.emplace_back("num_alloc_retries", num_alloc_retries);
  out.emplace_back("num_device_alloc", num_device_alloc);
  out.emplace_back("num_device_free", num_device_free);
  out.emplace_back("num_ooms", num_ooms);
  out.emplace_back("num_sync_all_streams", num_sync_all_streams);
  return out;
}

}  // namespace moonlet::cuda
