// tensor/memory/live_peak.cpp: one running count of live bytes for all who measure its peak.
#include "tensor/memory/live_peak.h"

#include <algorithm>
#include <mutex>

#include "tensor/core/platform/static_mutex.h"
#include "tensor/core/storage.h"

namespace moonlet::memory {

namespace {
constinit platform::StaticMutex mutex;
constinit LivePeak* measures = nullptr;
constinit int64_t live = 0;
}  // namespace

LivePeak::LivePeak() {
  std::lock_guard lock(mutex);
  if (!measures) {
    live = live_bytes();
    measuring_peak = true;
  }
  peak_ = live;
  next_ = measures;
  measures = this;
}

LivePeak::~LivePeak() {
  std::lock_guard lock(mutex);
  LivePeak** at = &measures;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  if (!measures) measuring_peak = false;
}

int64_t LivePeak::bytes() const {
  std::lock_guard lock(mutex);
  return peak_;
}

void count_peak(int64_t bytes) noexcept {
  std::lock_guard lock(mutex);
  live += bytes;
  for (LivePeak* each = measures; each; each = each->next_)
    each->peak_ = std::max(each->peak_, live);
}

}  // namespace moonlet::memory
