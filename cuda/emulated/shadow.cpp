// cuda/emulated/shadow.cpp: the rules by which two accesses are ordered.
#include "shadow.h"

namespace moonlet::emulated {

namespace {

constexpr std::uint16_t kWarp = 32;

bool same_warp(const Access& a, const Access& b) { return a.thread / kWarp == b.thread / kWarp; }

}  // namespace

bool Access::before(const Access& now) const {
  if (party == Party::kGrid || block != now.block) return false;
  if (epoch != now.epoch) return true;
  if (party == Party::kThread && thread == now.thread) return true;
  return party != Party::kBlock && same_warp(*this, now) && warp_epoch != now.warp_epoch;
}

Cell& Shadow::at(std::uintptr_t address) {
  const std::uintptr_t number = address / kPageBytes;
  if (number != last_) {
    auto& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    page_ = page.get();
    last_ = number;
  }
  return (*page_)[address % kPageBytes / 4];
}

namespace {

bool same_time(const Access& a, const Access& b) {
  return a.launch == b.launch && a.block == b.block && a.epoch == b.epoch;
}

/// A read together with the earlier ones. One that came before it for certain need not be
/// remembered: who comes after the later comes after both. Of bytes that only one of several
/// threads has read nothing is kept, so that neighbours are never taken for one another.
Access joined(const Access& earlier, const Access& now) {
  Access out = now;
  if (earlier.launch != now.launch) return out;
  if (same_time(earlier, now) && earlier.thread == now.thread && earlier.party == Party::kThread) {
    out.bytes |= earlier.bytes;
    return out;
  }
  const auto both = static_cast<std::uint8_t>(earlier.bytes & now.bytes);
  if (earlier.before(now) || both == 0) return out;
  out.bytes = both;
  if (earlier.block != now.block || earlier.party == Party::kGrid)
    out.party = Party::kGrid;
  else if (!same_warp(earlier, now) || earlier.party == Party::kBlock)
    out.party = Party::kBlock;
  else
    out.party = Party::kWarp;
  return out;
}

}  // namespace

const Access* enter(Cell& cell, const Access& now, bool writes) {
  const auto clashes = [&](const Access& earlier) {
    return earlier.launch == now.launch && (earlier.bytes & now.bytes) != 0 && !earlier.before(now);
  };
  const Access* found = clashes(cell.write) ? &cell.write : nullptr;
  if (writes && !found && clashes(cell.read)) found = &cell.read;
  if (found) return found;
  if (!writes) {
    cell.read = joined(cell.read, now);
    return nullptr;
  }
  const bool again = same_time(cell.write, now) && cell.write.thread == now.thread;
  const std::uint8_t bytes = again ? cell.write.bytes : 0;
  cell.write = now;
  cell.write.bytes |= bytes;
  return nullptr;
}

}  // namespace moonlet::emulated
