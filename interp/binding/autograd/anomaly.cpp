// interp/binding/autograd/anomaly.cpp: what stdlib/autograd/anomaly.lua turns on, and where the
// script is when the tape asks.
#include "autograd/anomaly.h"

#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/mode_guard.h"
#include "interp/state/entry.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"

namespace moonlet::binding {
namespace {

// The script's lines, of those that called the innermost one this many.
constexpr int kLines = 6;
constexpr int kMaxDepth = 64;

std::string line_text(const lua_Debug& info) {
  std::string out = text(info.short_src, ":", info.currentline);
  if (info.name != nullptr)
    out += text(": in function '", info.name, "'");
  else
    out += *info.what == 'm' ? ": in main chunk" : ": in a function";
  return out;
}

std::string position_of_script() {
  const StateData* data = innermost_state();
  if (data == nullptr || data->closing) return {};
  lua_State* L = data->running;
  std::string out;
  lua_Debug info;
  int lines = 0;
  for (int level = 0; level < kMaxDepth && lines < kLines; ++level) {
    if (lua_getstack(L, level, &info) == 0) break;
    lua_getinfo(L, "Sln", &info);
    if (info.currentline <= 0 || std::strncmp(info.source, "@stdlib/", 8) == 0) continue;
    if (lines++ == 0) out = text(info.short_src, ":", info.currentline);
    out += "\n    " + line_text(info);
  }
  return out;
}

// A Lua error on its way has its message on top of the stack of the coroutine that runs.
void amend_lua_error(const std::string& note) {
  const StateData* data = innermost_state();
  if (data == nullptr || data->closing) return;
  lua_State* L = data->running;
  if (lua_gettop(L) < 1 || lua_type(L, -1) != LUA_TSTRING || lua_checkstack(L, 2) == 0) return;
  // A finalizer must not run while the error is under way.
  const bool collects = lua_gc(L, LUA_GCISRUNNING) != 0;
  lua_gc(L, LUA_GCSTOP);
  lua_pushlstring(L, note.data(), note.size());
  lua_concat(L, 2);
  if (collects) lua_gc(L, LUA_GCRESTART);
}

// Sets whether anomalies are looked for, and whether NaN is one, where two booleans are given.
// Returns both as they were.
int l_anomaly(lua_State* L) {
  const Anomaly before = anomaly_mode;
  if (lua_gettop(L) >= 2) {
    anomaly_mode = lua_toboolean(L, 1) == 0   ? Anomaly::Ignore
                   : lua_toboolean(L, 2) == 0 ? Anomaly::Detect
                                              : Anomaly::DetectNan;
  }
  lua_pushboolean(L, before != Anomaly::Ignore);
  lua_pushboolean(L, before == Anomaly::DetectNan);
  return 2;
}

// "file:line: " of the script.
int l_where(lua_State* L) {
  push_where(L);
  return 1;
}

}  // namespace

void register_anomaly(lua_State* L) {
  set_anomaly_handler({position_of_script, amend_lua_error});
  static const luaL_Reg kModule[] = {
      {"_anomaly", guard<l_anomaly>}, {"_where", guard<l_where>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
