// cuda/emulated/sectors.h: how well the accesses of warps to global memory coalesce: the sectors of
// 32 bytes that they touch beside the fewest that would hold what they ask for, by kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace moonlet::emulated {

class SectorCounts {
 public:
  /// What lane's thread asks for at a position of the code; the n-th time that it comes there
  /// belongs with the n-th time of the warp's other lanes.
  void add(const void* position, unsigned thread, std::uintptr_t address, unsigned bytes);
  /// The end of a block of this kernel.
  void close(const std::string& kernel);
  /// A line for each kernel: its name, sectors touched, sectors needed.
  std::string report() const;

 private:
  struct Turn {
    const void* position;
    std::uint32_t warp, number;
    bool operator==(const Turn&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Turn& turn) const;
  };
  struct Totals {
    std::uint64_t touched = 0, needed = 0;
  };

  std::unordered_map<Turn, std::uint32_t, Hash> visits_;  // by position and thread
  std::unordered_map<Turn, std::vector<std::pair<std::uintptr_t, unsigned>>, Hash> turns_;
  std::map<std::string, Totals> totals_;
};

}  // namespace moonlet::emulated
