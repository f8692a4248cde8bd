// interp/modules/raster.h: module moonlet.raster: pages of shapes and texts as PNG pictures, by
// cairo.
#pragma once

#include "lua.hpp"

// png(width, height, scale, items) -> bytes; unavailable() -> nil, or why it cannot draw.
int luaopen_moonlet_raster(lua_State* L);
