// tensor/memory/live_peak.h: the exact highest number of live bytes while something runs. Counting
// is off, and costs one load, while nobody measures.
#pragma once

#include <atomic>
#include <cstdint>

namespace moonlet::memory {

// Measures from its making on. Several may measure at once, nested or on several threads; all count
// the storages of every thread and device.
class LivePeak {
 public:
  LivePeak();
  ~LivePeak();
  LivePeak(const LivePeak&) = delete;
  LivePeak& operator=(const LivePeak&) = delete;
  int64_t bytes() const;

 private:
  friend void count_peak(int64_t bytes) noexcept;
  int64_t peak_;
  LivePeak* next_;
};

inline constinit std::atomic<bool> measuring_peak = false;
void count_peak(int64_t bytes) noexcept;
// A storage of so many bytes was made, or with a negative count ended.
inline void live_bytes_changed(int64_t bytes) noexcept {
  if (measuring_peak.load(std::memory_order_relaxed)) [[unlikely]]
    count_peak(bytes);
}

}  // namespace moonlet::memory
