// tensor/program/arena.h: offsets of blocks in one arena, for a plan: each is taken for a while,
// and what is given back is used again.
#pragma once

#include <cstdint>
#include <map>
#include <span>

namespace moonlet::program {

class Arena {
 public:
  static constexpr int64_t kAlignment = 64;  // of all blocks: a cache line, and a vector of AVX-512

  // The offset of a free block, the smallest that is large enough.
  int64_t take(int64_t bytes);
  void give_back(int64_t offset, int64_t bytes);
  // What all blocks need.
  int64_t bytes() const { return end_; }
  static int64_t rounded(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  std::map<int64_t, int64_t> free_;  // offset to bytes; neighbours are joined
  int64_t end_ = 0;
};

// What needs `bytes` from the step `first` to the step `last`, and where it lies then.
struct ArenaBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;
  int64_t offset = 0;
};

// Gives each an offset, so that no two share memory in one step, and returns what all need.
int64_t place(std::span<ArenaBlock> blocks);

}  // namespace moonlet::program
