// interp/complete.cpp: walks the path before the cursor and lists what its end offers.
#include "interp/complete.h"

#include <cctype>
#include <set>

#include "interp/guard.h"

namespace moonlet {
namespace {

constexpr const char* kKeywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while",
};

struct Query {
  std::vector<std::string> path;
  std::string prefix;
  bool methods = false;
  std::set<std::string> names;
};

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_name(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
  for (const char c : text) {
    if (!is_name_char(c)) return false;
  }
  return true;
}

void offer(Query& query, std::string_view name) {
  if (name.substr(0, query.prefix.size()) != query.prefix || !is_name(name)) return;
  if (query.prefix.empty() && name.substr(0, 2) == "__") return;
  query.names.emplace(name);
}

// The string keys of the table on top; for `x:` only those that can be called.
void offer_keys(lua_State* L, Query& query) {
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    const int type = lua_type(L, -1);
    const bool callable = type == LUA_TFUNCTION || type == LUA_TTABLE || type == LUA_TUSERDATA;
    if (lua_type(L, -2) == LUA_TSTRING && (!query.methods || callable)) {
      size_t size = 0;
      const char* name = lua_tolstring(L, -2, &size);
      offer(query, {name, size});
    }
    lua_pop(L, 1);
  }
}

// `ml._methods` and `ml._storage_methods` list what tensors and storages answer to, whose __index
// is a function. Pushes the one for the userdata on top, or nil.
void push_methods(lua_State* L) {
  const char* methods = "_methods";
  if (luaL_getmetafield(L, -1, "__name") != LUA_TNIL) {
    if (lua_type(L, -1) == LUA_TSTRING && std::string_view(lua_tostring(L, -1)) == "Storage")
      methods = "_storage_methods";
    lua_pop(L, 1);
  }
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "moonlet") == LUA_TTABLE) {
    lua_getfield(L, -1, methods);
    lua_replace(L, -3);
    lua_pop(L, 1);
  } else {
    lua_pop(L, 2);
    lua_pushnil(L);
  }
}

// Offers the keys of the value on top and of the __index tables behind it.
void offer_chain(lua_State* L, Query& query) {
  constexpr int kDeepest = 16;
  luaL_checkstack(L, 8, nullptr);
  for (int depth = 0; depth < kDeepest; ++depth) {
    if (lua_type(L, -1) == LUA_TTABLE) offer_keys(L, query);
    if (luaL_getmetafield(L, -1, "__index") == LUA_TNIL) break;
    if (lua_type(L, -1) == LUA_TFUNCTION && lua_type(L, -2) == LUA_TUSERDATA) {
      lua_pop(L, 1);
      push_methods(L);
      if (lua_type(L, -1) == LUA_TTABLE) offer_keys(L, query);
      break;
    }
    lua_replace(L, -2);
  }
  lua_pop(L, 1);
}

int run_query(lua_State* L) {
  auto& query = *static_cast<Query*>(lua_touserdata(L, 1));
  lua_pushglobaltable(L);
  for (const std::string& name : query.path) {
    lua_getfield(L, -1, name.c_str());
    lua_remove(L, -2);
  }
  offer_chain(L, query);
  return 0;
}

// Splits "print(ml.nn.Li" into path {ml, nn} and prefix "Li"; returns where the prefix starts.
size_t parse(std::string_view text, Query& query) {
  size_t start = text.size();
  while (start > 0 && is_name_char(text[start - 1])) --start;
  query.prefix = text.substr(start);
  size_t end = start;
  bool last = true;
  while (end > 0 && (text[end - 1] == '.' || text[end - 1] == ':')) {
    if (last) query.methods = text[end - 1] == ':';
    last = false;
    size_t from = --end;
    while (from > 0 && is_name_char(text[from - 1])) --from;
    const std::string_view part = text.substr(from, end - from);
    if (!is_name(part)) {  // such as f().x: nothing is called only to complete a name
      query.path.assign(1, "");
      return start;
    }
    query.path.insert(query.path.begin(), std::string(part));
    end = from;
  }
  return start;
}

}  // namespace

Completions complete(lua_State* L, std::string_view text) {
  Query query;
  Completions result;
  result.word = parse(text, query);
  if (query.path.empty()) {
    for (const char* keyword : kKeywords) offer(query, keyword);
  }
  const int top = lua_gettop(L);
  if (lua_checkstack(L, 4) == 0) return result;
  lua_pushcfunction(L, guard<run_query>);
  lua_pushlightuserdata(L, &query);
  lua_pcall(L, 1, 0, 0);
  lua_settop(L, top);
  result.names.assign(query.names.begin(), query.names.end());
  return result;
}

}  // namespace moonlet
