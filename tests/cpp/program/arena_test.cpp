// tests/cpp/program/arena_test.cpp: blocks whose times are known share no memory while they live,
// and take little more than lives at once.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <vector>

#include "tensor/program/arena.h"

using moonlet::program::Arena;
using moonlet::program::ArenaBlock;
using moonlet::program::place;

namespace {

constexpr int64_t kUnit = Arena::kAlignment;

// The most that lives in one step.
int64_t least(const std::vector<ArenaBlock>& blocks, int steps) {
  int64_t most = 0;
  for (int s = 0; s < steps; ++s) {
    int64_t now = 0;
    for (const ArenaBlock& each : blocks)
      if (each.first <= s && s <= each.last)
        now += std::max(Arena::rounded(each.bytes), Arena::kAlignment);
    most = std::max(most, now);
  }
  return most;
}

bool apart(const ArenaBlock& a, const ArenaBlock& b) {
  const bool at_once = a.first <= b.last && b.first <= a.last;
  return !at_once || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
}

}  // namespace

TEST_CASE("a small block does not keep a large one from memory that is free") {
  std::vector<ArenaBlock> blocks = {{4 * kUnit, 0, 1}, {kUnit, 1, 5}, {5 * kUnit, 2, 3}};
  CHECK(place(blocks) == 6 * kUnit);
  CHECK(place({}) == 0);
}

TEST_CASE("blocks that live at once lie apart") {
  std::mt19937 random(7);
  int64_t needed = 0, taken = 0;
  for (int round = 0; round < 200; ++round) {
    constexpr int kSteps = 40;
    std::vector<ArenaBlock> blocks(1 + random() % 60);
    for (ArenaBlock& each : blocks) {
      each.bytes = static_cast<int64_t>(random() % 3000);
      each.first = static_cast<int>(random() % kSteps);
      each.last = std::min<int>(each.first + static_cast<int>(random() % 12), kSteps - 1);
    }
    const int64_t bytes = place(blocks);
    for (size_t i = 0; i < blocks.size(); ++i) {
      CHECK(blocks[i].offset % kUnit == 0);
      CHECK(blocks[i].offset + blocks[i].bytes <= bytes);
      for (size_t j = 0; j < i; ++j) CHECK(apart(blocks[i], blocks[j]));
    }
    needed += least(blocks, kSteps);
    taken += bytes;
  }
  CHECK(taken < needed * 11 / 10);
}
