// tensor/memory/live_bound.cpp: the bytes of tensors since a bound was made.
#include "tensor/memory/live_bound.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/core/storage.h"

namespace moonlet::memory {

constinit thread_local const LiveBound* live_bound = nullptr;

LiveBound::LiveBound(int64_t limit) noexcept
    : limit_(limit),
      live_before_(live_bytes()),
      allocated_before_(thread_allocated_bytes()),
      outer_(live_bound) {
  live_bound = this;
}

LiveBound::~LiveBound() { live_bound = outer_; }

void LiveBound::check(uint64_t bytes) const {
  // Other threads make live bytes too, but none that this one would have allocated.
  const int64_t held = std::max<int64_t>(
      std::min(live_bytes() - live_before_, thread_allocated_bytes() - allocated_before_), 0);
  if (bytes > static_cast<uint64_t>(limit_) || static_cast<int64_t>(bytes) > limit_ - held)
    throw OutOfMemory(text("out of memory: ", int64_t(bytes), " bytes are expected and ", held,
                           " of ", limit_, " in use, the bound that is set here"));
  if (outer_ != nullptr) outer_->check(bytes);
}

}  // namespace moonlet::memory
