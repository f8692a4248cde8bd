// interp/cli/complete.cpp: asks moonlet.repl which names may follow.
#include "interp/cli/complete.h"

#include <algorithm>

#include "interp/state/guard.h"

namespace moonlet {
namespace {

struct Query {
  std::string_view text, above;
  Completions result;
};

int run_query(lua_State* L) {
  auto& query = *static_cast<Query*>(lua_touserdata(L, 1));
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.repl");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "complete");
  lua_pushlstring(L, query.text.data(), query.text.size());
  lua_pushlstring(L, query.above.data(), query.above.size());
  lua_call(L, 2, 2);
  const lua_Integer start = lua_tointeger(L, -2);
  if (start < 1 || lua_type(L, -1) != LUA_TTABLE) return 0;
  query.result.word = std::min(static_cast<size_t>(start - 1), query.text.size());
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; ++i) {
    size_t size = 0;
    const char* name = lua_tolstring(L, -1, &size);
    query.result.names.emplace_back(name, size);
    lua_pop(L, 1);
  }
  return 0;
}

}  // namespace

Completions complete(lua_State* L, std::string_view text, std::string_view above) {
  Query query{text, above, {}};
  const int top = lua_gettop(L);
  if (lua_checkstack(L, 4) == 0) return {};
  lua_pushcfunction(L, guard<run_query>);
  lua_pushlightuserdata(L, &query);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) query.result = {};
  lua_settop(L, top);
  return query.result;
}

}  // namespace moonlet
