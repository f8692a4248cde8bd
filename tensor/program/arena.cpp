// tensor/program/arena.cpp: the free blocks of an arena.
#include "tensor/program/arena.h"

#include <algorithm>
#include <iterator>

namespace moonlet::program {

int64_t Arena::take(int64_t bytes) {
  bytes = std::max(rounded(bytes), kAlignment);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
  if (best == free_.end()) {
    // A block at the end that is free is made longer.
    const auto last = free_.empty() ? free_.end() : std::prev(free_.end());
    const bool at_end = last != free_.end() && last->first + last->second == end_;
    const int64_t offset = at_end ? last->first : end_;
    if (at_end) free_.erase(last);
    end_ = offset + bytes;
    return offset;
  }
  const int64_t offset = best->first, left = best->second - bytes;
  free_.erase(best);
  if (left > 0) free_.emplace(offset + bytes, left);
  return offset;
}

void Arena::give_back(int64_t offset, int64_t bytes) {
  bytes = std::max(rounded(bytes), kAlignment);
  auto [it, is_new] = free_.emplace(offset, bytes);
  if (const auto next = std::next(it);
      next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != it->first) return;
  before->second += it->second;
  free_.erase(it);
}

}  // namespace moonlet::program
