// interp/library/string_functions.cpp: find, match, gmatch, gsub and rep of library `string`.
#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <new>
#include <string_view>

#include "interp/library/patterns.h"
#include "interp/state/state.h"
#include "tensor/runtime/stack.h"

namespace moonlet::library {
namespace {

std::string_view check_text(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

// Where a search begins that `position` asks for, from 0: negative positions count from the end.
size_t start_of(lua_Integer position, size_t size) {
  if (position > 0) return static_cast<size_t>(position) - 1;
  if (position == 0 || position < -static_cast<lua_Integer>(size)) return 0;
  return size - static_cast<size_t>(-position);
}

// --- find and match ------------------------------------------------------------------------------

bool is_plain(std::string_view pattern) {
  return pattern.find_first_of("^$*+?.([%-") == std::string_view::npos;
}

// By looking for the first character, which is fast in most texts; where that finds much that does
// not go on as wanted, by libc's search, which is slower but takes linear time in all.
const char* find_plain(const char* from, const char* to, std::string_view wanted) {
  if (wanted.empty()) return from;
  const char* const begin = from;
  size_t wasted = 0;
  while (static_cast<size_t>(to - from) >= wanted.size()) {
    const size_t room = static_cast<size_t>(to - from) - wanted.size() + 1;
    const char* const found = static_cast<const char*>(std::memchr(from, wanted[0], room));
    if (found == nullptr) return nullptr;
    if (std::memcmp(found, wanted.data(), wanted.size()) == 0) return found;
    from = found + 1;
    wasted += wanted.size();
    if (wasted > 4096 + 8 * static_cast<size_t>(from - begin)) {
      const auto left = static_cast<size_t>(to - from);
      return static_cast<const char*>(memmem(from, left, wanted.data(), wanted.size()));
    }
  }
  return nullptr;
}

int push_position(lua_State* L, std::string_view text, const char* from, const char* to) {
  lua_pushinteger(L, from - text.data() + 1);
  lua_pushinteger(L, to - text.data());
  return 2;
}

int find_or_match(lua_State* L, bool find) {
  const std::string_view text = check_text(L, 1);
  std::string_view pattern = check_text(L, 2);
  const size_t start = start_of(luaL_optinteger(L, 3, 1), text.size());
  if (start > text.size()) {
    luaL_pushfail(L);
    return 1;
  }
  const char* at = text.data() + start;
  const char* const end = text.data() + text.size();
  if (find && (lua_toboolean(L, 4) != 0 || is_plain(pattern))) {
    const char* found = find_plain(at, end, pattern);
    if (found != nullptr) return push_position(L, text, found, found + pattern.size());
    luaL_pushfail(L);
    return 1;
  }
  const bool anchored = pattern.starts_with('^');
  if (anchored) pattern.remove_prefix(1);
  Matcher matcher(L, text, pattern);
  do {
    const char* const to = matcher.match(at);
    if (to == nullptr) continue;
    if (!find) return matcher.push_captures(at, to);
    push_position(L, text, at, to);
    return matcher.push_captures(nullptr, nullptr) + 2;
  } while (at++ < end && !anchored);
  luaL_pushfail(L);
  return 1;
}

int l_find(lua_State* L) { return find_or_match(L, true); }
int l_match(lua_State* L) { return find_or_match(L, false); }

// --- gmatch --------------------------------------------------------------------------------------

// Where an iteration stands; its strings are the upvalues before it.
struct Iteration {
  size_t next;
  const char* last;  // the end of the last match, which an empty one may not repeat
};

int next_match(lua_State* L) {
  auto& state = *static_cast<Iteration*>(lua_touserdata(L, lua_upvalueindex(3)));
  const std::string_view text = check_text(L, lua_upvalueindex(1));
  Matcher matcher(L, text, check_text(L, lua_upvalueindex(2)));
  for (; state.next <= text.size(); ++state.next) {
    const char* const from = text.data() + state.next;
    const char* const to = matcher.match(from);
    if (to == nullptr || to == state.last) continue;
    state.last = to;
    state.next = static_cast<size_t>(to - text.data());
    return matcher.push_captures(from, to);
  }
  return 0;
}

int l_gmatch(lua_State* L) {
  const size_t size = check_text(L, 1).size();
  check_text(L, 2);
  const size_t start = start_of(luaL_optinteger(L, 3, 1), size);
  lua_settop(L, 2);
  new (lua_newuserdatauv(L, sizeof(Iteration), 0)) Iteration{std::min(start, size + 1), nullptr};
  lua_pushcclosure(L, next_match, 3);
  return 1;
}

// --- gsub ----------------------------------------------------------------------------------------

// Adds the replacement string with what stands for its %0 to %9.
void add_template(lua_State* L, luaL_Buffer* out, Matcher& matcher, const char* from,
                  const char* to) {
  size_t size = 0;
  const char* text = lua_tolstring(L, 3, &size);
  const char* const end = text + size;
  for (;;) {
    const void* found = std::memchr(text, '%', static_cast<size_t>(end - text));
    const char* const mark = found != nullptr ? static_cast<const char*>(found) : end;
    luaL_addlstring(out, text, static_cast<size_t>(mark - text));
    if (mark == end) return;
    const char kind = mark[1];
    if (kind == '%') {
      luaL_addchar(out, '%');
    } else if (kind == '0') {
      luaL_addlstring(out, from, static_cast<size_t>(to - from));
    } else if (std::isdigit(static_cast<unsigned char>(kind)) != 0) {
      std::string_view capture;
      if (matcher.find_capture(kind - '1', from, to, &capture))
        luaL_addlstring(out, capture.data(), capture.size());
      else
        luaL_addvalue(out);
    } else {
      luaL_error(L, "invalid use of '%c' in replacement string", '%');
    }
    text = mark + 2;
  }
}

// Adds what replaces a match. Returns whether that is anything but the match itself.
bool add_replacement(lua_State* L, luaL_Buffer* out, Matcher& matcher, const char* from,
                     const char* to, int kind) {
  if (kind == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, matcher.push_captures(from, to), 1);
  } else if (kind == LUA_TTABLE) {
    matcher.push_capture(0, from, to);
    lua_gettable(L, 3);
  } else {
    add_template(L, out, matcher, from, to);
    return true;
  }
  if (lua_toboolean(L, -1) == 0) {
    lua_pop(L, 1);
    luaL_addlstring(out, from, static_cast<size_t>(to - from));
    return false;
  }
  if (lua_isstring(L, -1) == 0)
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(out);
  return true;
}

int l_gsub(lua_State* L) {
  if (stack_is_short()) return luaL_error(L, "C stack overflow");
  const std::string_view text = check_text(L, 1);
  std::string_view pattern = check_text(L, 2);
  const int kind = lua_type(L, 3);
  const auto most = luaL_optinteger(L, 4, static_cast<lua_Integer>(text.size()) + 1);
  luaL_argexpected(
      L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION || kind == LUA_TTABLE,
      3, "string/function/table");
  const bool anchored = pattern.starts_with('^');
  if (anchored) pattern.remove_prefix(1);
  Matcher matcher(L, text, pattern);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  const char* at = text.data();
  const char* const end = at + text.size();
  const char* last = nullptr;
  bool changed = false;
  lua_Integer count = 0;
  while (count < most) {
    const char* const to = matcher.match(at);
    if (to != nullptr && to != last) {
      ++count;
      changed = add_replacement(L, &out, matcher, at, to, kind) || changed;
      at = last = to;
    } else if (at < end) {
      luaL_addchar(&out, *at);
      ++at;
    } else {
      break;
    }
    if (anchored) break;
  }
  if (changed) {
    luaL_addlstring(&out, at, static_cast<size_t>(end - at));
    luaL_pushresult(&out);
  } else {
    lua_pushvalue(L, 1);
  }
  lua_pushinteger(L, count);
  return 2;
}

// --- rep -----------------------------------------------------------------------------------------

int l_rep(lua_State* L) {
  const std::string_view text = check_text(L, 1);
  const lua_Integer count = luaL_checkinteger(L, 2);
  size_t between = 0;
  const char* separator = luaL_optlstring(L, 3, "", &between);
  const size_t piece = text.size() + between;
  if (count <= 0 || piece == 0) {
    lua_pushliteral(L, "");
    return 1;
  }
  if (piece < between || piece > INT_MAX / static_cast<size_t>(count))
    return luaL_error(L, "resulting string too large");
  const size_t size = static_cast<size_t>(count) * piece - between;
  luaL_Buffer out;
  char* const bytes = luaL_buffinitsize(L, &out, size);
  // The first piece, then all that is there once more, until it is enough.
  std::memcpy(bytes, text.data(), text.size());
  if (count > 1) std::memcpy(bytes + text.size(), separator, between);
  for (size_t done = std::min(piece, size); done < size;) {
    const size_t more = std::min(done, size - done);
    std::memcpy(bytes + done, bytes, more);
    done += more;
  }
  luaL_pushresultsize(&out, size);
  return 1;
}

}  // namespace

void replace_string_functions(lua_State* L) {
  if (!push_library(L, LUA_STRLIBNAME)) return;
  static constexpr luaL_Reg kFunctions[] = {{"find", l_find},     {"match", l_match},
                                            {"gmatch", l_gmatch}, {"gsub", l_gsub},
                                            {"rep", l_rep},       {nullptr, nullptr}};
  luaL_setfuncs(L, kFunctions, 0);
  lua_pop(L, 1);
}

}  // namespace moonlet::library
