// interp/state/names.cpp: a name of a field that was not asked for lately.
#include "interp/state/names.h"

#include "interp/state/slots.h"

namespace moonlet::detail {

void Names::push_new(lua_State* L, std::string_view name) {
  lua_pushlstring(L, name.data(), name.size());
  Entry wanted(name);
  if (wanted.size > kLongest) return;
  Entry& entry = entries_[wanted.index()];
  lua_pushvalue(L, -1);
  if (entry.slot != 0)
    lua_rawseti(L, LUA_REGISTRYINDEX, entry.slot);
  else
    entry.slot = slots_.take(L);
  wanted.slot = entry.slot;
  entry = wanted;
}

}  // namespace moonlet::detail
