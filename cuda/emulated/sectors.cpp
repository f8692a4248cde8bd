// cuda/emulated/sectors.cpp: gathers the accesses of a block's warps and counts their sectors.
#include "sectors.h"

#include <algorithm>
#include <functional>

namespace moonlet::emulated {

namespace {
constexpr std::uintptr_t kSector = 32;
constexpr unsigned kWarp = 32;
}  // namespace

std::size_t SectorCounts::Hash::operator()(const Turn& turn) const {
  const std::uint64_t rest = std::uint64_t{turn.warp} << 32 | turn.number;
  return std::hash<const void*>()(turn.position) ^ rest * 0x9e3779b97f4a7c15u;
}

void SectorCounts::add(const void* position, unsigned thread, std::uintptr_t address,
                       unsigned bytes) {
  const std::uint32_t visit = visits_[{position, thread, 0}]++;
  turns_[{position, thread / kWarp, visit}].emplace_back(address, bytes);
}

void SectorCounts::close(const std::string& kernel) {
  Totals& totals = totals_[kernel];
  for (auto& [turn, lanes] : turns_) {
    std::sort(lanes.begin(), lanes.end());
    std::uint64_t bytes = 0, sectors = 0;
    std::uintptr_t seen = 0, sector_end = 0;  // up to where bytes and sectors are counted
    for (const auto& [address, size] : lanes) {
      const std::uintptr_t end = address + size;
      if (end > seen) bytes += end - std::max(seen, address), seen = end;
      for (std::uintptr_t s = address / kSector; s <= (end - 1) / kSector; ++s)
        if (s >= sector_end) ++sectors, sector_end = s + 1;
    }
    totals.touched += sectors;
    totals.needed += (bytes + kSector - 1) / kSector;
  }
  turns_.clear();
  visits_.clear();
}

std::string SectorCounts::report() const {
  std::string out;
  for (const auto& [kernel, totals] : totals_)
    out += kernel + "\t" + std::to_string(totals.touched) + "\t" + std::to_string(totals.needed) +
           "\n";
  return out;
}

}  // namespace moonlet::emulated
