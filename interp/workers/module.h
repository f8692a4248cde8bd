// interp/workers/module.h: module moonlet.workers: threads with interpreters of their own, for the
// standard library.
#pragma once

#include "lua.hpp"

int luaopen_moonlet_workers(lua_State* L);
