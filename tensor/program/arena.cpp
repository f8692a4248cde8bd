// tensor/program/arena.cpp: the free blocks of an arena, and where blocks lie whose times are
// known.
#include "tensor/program/arena.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

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

namespace {

// Beyond so many blocks they are placed in the order of their steps alone.
constexpr size_t kMostBySize = 4096;

// In the order of their steps.
int64_t place_by_step(std::span<ArenaBlock> blocks) {
  std::vector<size_t> begins(blocks.size()), ends;
  std::iota(begins.begin(), begins.end(), size_t{0});
  ends = begins;
  std::stable_sort(begins.begin(), begins.end(),
                   [&](size_t a, size_t b) { return blocks[a].first < blocks[b].first; });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](size_t a, size_t b) { return blocks[a].last < blocks[b].last; });
  Arena arena;
  auto ended = ends.begin();
  for (const size_t i : begins) {
    for (; blocks[*ended].last < blocks[i].first; ++ended)
      arena.give_back(blocks[*ended].offset, blocks[*ended].bytes);
    blocks[i].offset = arena.take(blocks[i].bytes);
  }
  return arena.bytes();
}

// The large ones first, each in the smallest gap that it fits between those that live with it.
int64_t place_by_size(std::span<ArenaBlock> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  const auto bytes_of = [](const ArenaBlock& block) {
    return std::max(Arena::rounded(block.bytes), Arena::kAlignment);
  };
  std::vector<size_t> placed;  // by offset
  int64_t most = 0;
  for (const size_t i : order) {
    ArenaBlock& block = blocks[i];
    const int64_t bytes = bytes_of(block);
    int64_t end = 0, best = -1, best_gap = 0;
    for (const size_t other : placed) {
      const ArenaBlock& near = blocks[other];
      if (near.last < block.first || block.last < near.first) continue;
      const int64_t gap = near.offset - end;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, near.offset + bytes_of(near));
    }
    block.offset = best < 0 ? end : best;
    most = std::max(most, block.offset + bytes);
    placed.insert(std::upper_bound(
                      placed.begin(), placed.end(), block.offset,
                      [&](int64_t offset, size_t other) { return offset < blocks[other].offset; }),
                  i);
  }
  return most;
}

}  // namespace

int64_t place(std::span<ArenaBlock> blocks) {
  const int64_t by_step = place_by_step(blocks);
  if (blocks.size() > kMostBySize) return by_step;
  std::vector<ArenaBlock> others(blocks.begin(), blocks.end());
  const int64_t by_size = place_by_size(others);
  if (by_size >= by_step) return by_step;
  std::copy(others.begin(), others.end(), blocks.begin());
  return by_size;
}

}  // namespace moonlet::program
