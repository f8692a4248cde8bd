// cuda/emulated/shadow.h: for every four bytes of memory, who wrote them last and who read them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace moonlet::emulated {

/// Which threads made the accesses that a cell stands for.
enum class Party : std::uint8_t { kThread, kWarp, kBlock, kGrid };

/// An access by `thread` of `block`, or the last of several. The epochs count the barriers of the
/// block, and those of the warp, that came before it.
struct Access {
  std::uint32_t launch = 0, block = 0, epoch = 0, warp_epoch = 0;
  std::uint16_t thread = 0;
  Party party = Party::kThread;
  std::uint8_t bytes = 0;  // which of the four, as bits

  /// Whether `now` comes after it for certain; both are of one launch.
  bool before(const Access& now) const;
};

struct Cell {
  Access write, read;
};

/// The cells of all memory that was looked at, which begins with no access at all.
class Shadow {
 public:
  Cell& at(std::uintptr_t address);

 private:
  static constexpr std::uintptr_t kPageBytes = 4096;
  using Page = std::array<Cell, kPageBytes / 4>;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_ = ~std::uintptr_t{0};
  Page* page_ = nullptr;
};

/// Enters a read or a write into its cell; the access that it races with, or null.
const Access* enter(Cell& cell, const Access& now, bool writes);

}  // namespace moonlet::emulated
