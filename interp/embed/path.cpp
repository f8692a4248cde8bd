// interp/embed/path.cpp: globals of scripts, and what lies below them, by paths.
#include "interp/embed/path.h"

#include <algorithm>

#include "interp/embed/session.h"
#include "tensor/core/error.h"

namespace moonlet::detail {

namespace {

// The part of a path before the first dot, which is taken off.
std::string_view first_name(std::string_view& path) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view name = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  return name;
}

}  // namespace

void push_position(lua_State* L, std::string_view path, const char* op) {
  const std::string_view whole = path;
  lua_pushglobaltable(L);
  std::string_view name = first_name(path);
  while (name.data() + name.size() != whole.data() + whole.size()) {
    Session::of(L).names.push(L, name);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    if (lua_isnil(L, -1))
      fail(op, ": there is no '", whole.substr(0, name.data() + name.size() - whole.data()),
           "' for '", whole, "'");
    name = first_name(path);
  }
  Session::of(L).names.push(L, name);
}

void push_path(lua_State* L, std::string_view path, const char* op) {
  push_position(L, path, op);
  lua_gettable(L, -2);
  lua_remove(L, -2);
}

}  // namespace moonlet::detail
