// interp/cli/page.cpp: the prompt of a page in a browser: functions that the page's worker calls,
// for WebAssembly alone. What is shown goes to the standard streams, which are the page's.
#include <cstdio>
#include <string>

#include "interp/cli/complete.h"
#include "interp/cli/report.h"
#include "interp/cli/statement.h"
#include "interp/state/entry.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"

namespace moonlet {
namespace {

// The page has one interpreter, which is entered as long as there is the page.
struct Page {
  StatePtr state = new_state({});
  EntryScope entry{state_data(state.get())};
};
Page* page = nullptr;

struct Call {
  const char *text, *name;
  Typed outcome;
};

// Compiles, binds and runs what was typed; its value, or its error, is shown.
int submit(lua_State* L) {
  auto& call = *static_cast<Call*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  std::string compiled;
  call.outcome = compile_typed(L, call.text, &compiled);
  if (call.outcome == Typed::kIncomplete) return 0;
  if (call.outcome == Typed::kReady && bind_typed(L, compiled)) {
    if (!run_typed(L, 0)) call.outcome = Typed::kFailed;
  } else {
    report_error(L, "");
    call.outcome = Typed::kFailed;
  }
  return 0;
}

// The same for a script.
int run(lua_State* L) {
  auto& call = *static_cast<Call*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  const std::string text = call.text, name = "@" + std::string(call.name);
  int status = luaL_loadbufferx(L, text.data(), text.size(), name.c_str(), "t");
  if (status == LUA_OK) status = call_interruptible(L, 0, 0);
  if (status != LUA_OK) report_error(L, "");
  call.outcome = status == LUA_OK ? Typed::kReady : Typed::kFailed;
  return 0;
}

int make(lua_CFunction function, const char* text, const char* name) {
  lua_State* L = page->state.get();
  Call call{text, name, Typed::kFailed};
  lua_settop(L, 0);
  lua_pushcfunction(L, function);
  lua_pushlightuserdata(L, &call);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) report_error(L, "moonlet");
  std::fflush(nullptr);
  return static_cast<int>(call.outcome);
}

}  // namespace
}  // namespace moonlet

// Each is to be exported (meson.build).
extern "C" {

// Makes the interpreter, with `ml` and the prompt's commands. To be called once, before the others.
// Whether it could.
int moonlet_page_open() {
  using namespace moonlet;
  try {
    page = new Page;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "moonlet: %s\n", e.what());
    return 0;
  }
  lua_State* L = page->state.get();
  lua_pushcfunction(L, guard<open_prompt>);
  const bool is_open = call_interruptible(L, 0, 0) == LUA_OK;
  if (!is_open) report_error(L, "moonlet");
  return is_open ? 1 : 0;
}

// What was typed at the prompt: 0 when it has run, 1 when more lines are to come, 2 when it failed.
int moonlet_page_submit(const char* text) {
  return moonlet::make(moonlet::guard<moonlet::submit>, text, "");
}

// A script: 0 when it has run, 2 when it failed.
int moonlet_page_run(const char* text, const char* name) {
  return moonlet::make(moonlet::guard<moonlet::run>, text, name);
}

// Where the word begins, from 0, that a name may replace, and the names, each in a line.
// The text lasts until the next call.
const char* moonlet_page_complete(const char* text) {
  static std::string out;
  const moonlet::Completions found = moonlet::complete(moonlet::page->state.get(), text, "");
  out = std::to_string(found.word);
  for (const std::string& name : found.names) out += "\n" + name;
  return out.c_str();
}

const char* moonlet_page_version() { return moonlet::version(); }
}
