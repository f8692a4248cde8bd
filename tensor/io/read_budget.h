// tensor/io/read_budget.h: how much a reader may make of a file, which may come from anybody: a
// bound in proportion to the file's size, for all formats.
#pragma once

#include <cstdint>

namespace moonlet::io {

// A file of n bytes may become kReadFactor * n bytes of tensors and values, and kReadFloor in any
// case: some formats say much in few bytes (a deflate stream of zeros grows 1032 times). Work that
// makes nothing counts as bytes, too, so that the bound is also one of time.
inline constexpr int64_t kReadFloor = int64_t{1} << 29;
inline constexpr int64_t kReadFactor = 256;

// The bound for a file: `max_bytes`, which a caller gave, or the above where that is 0.
int64_t read_limit(uint64_t file_bytes, int64_t max_bytes) noexcept;

// What is left of the bound while a file is read.
class ReadBudget {
 public:
  explicit ReadBudget(uint64_t file_bytes, int64_t max_bytes = 0) noexcept
      : limit_(read_limit(file_bytes, max_bytes)), left_(limit_) {}

  // Asked before `bytes` are made. Throws Error with the reason alone, which names the option
  // `max_bytes`.
  void take(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(left_)) [[unlikely]]
      exceed();
    left_ -= static_cast<int64_t>(bytes);
  }
  bool has(uint64_t bytes) const noexcept { return bytes <= static_cast<uint64_t>(left_); }
  // Bytes that were taken and are free again.
  void give_back(uint64_t bytes) noexcept { left_ += static_cast<int64_t>(bytes); }
  int64_t left() const noexcept { return left_; }
  [[noreturn, gnu::cold]] void exceed() const;

 private:
  int64_t limit_, left_;
};

}  // namespace moonlet::io
