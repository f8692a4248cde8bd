// cuda/emulated/warpgroup.h: what grid.cpp and wgmma.cpp know of each other.
#pragma once

namespace moonlet::emulated {

inline constexpr unsigned kWarpgroupSize = 128;

/// Waits for all threads of the calling thread's warpgroup; fails the launch when it is not whole.
void sync_warpgroup();

/// At the end of a block: forgets products that nobody has waited for; whether there were some.
bool drop_products();

}  // namespace moonlet::emulated
