// interp/package/host_lua.cpp: only in libmoonlet-lua: it opens module `moonlet` in the Lua states
// of hosts.
#include "interp/embed/call_scope.h"

namespace {
[[gnu::constructor(101)]] void serve_host_states() { moonlet::host_states = true; }
}  // namespace
