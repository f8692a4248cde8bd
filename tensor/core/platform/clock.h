// tensor/core/platform/clock.h: clocks that never go back.
#pragma once

#include <cstdint>

namespace moonlet::platform {

// Nanoseconds of a clock that never goes back.
int64_t clock_now() noexcept;
// The same clock, some milliseconds late at most and quicker to read.
int64_t coarse_clock_now() noexcept;

}  // namespace moonlet::platform
