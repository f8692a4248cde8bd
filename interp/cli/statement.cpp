// interp/cli/statement.cpp: read by the prompts, here compiled and run. Expressions print
// themselves and stay in `_`.
#include "interp/cli/statement.h"

#include <cstdio>
#include <string_view>

#include "interp/cli/report.h"
#include "interp/state/guard.h"

namespace moonlet {
namespace {

constexpr const char* kChunkName = "=stdin";

bool compile(lua_State* L, const std::string& code) {
  return luaL_loadbufferx(L, code.data(), code.size(), kChunkName, "t") == LUA_OK;
}

// True when the syntax error on top of the stack says that the text ended too early.
bool is_incomplete(lua_State* L) {
  size_t size = 0;
  const char* message = lua_tolstring(L, -1, &size);
  constexpr std::string_view kMark = "<eof>";
  return message != nullptr && size >= kMark.size() &&
         std::string_view(message, size).substr(size - kMark.size()) == kMark;
}

// A field of moonlet.repl.
void push_repl(lua_State* L, const char* field) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.repl");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, field);
  lua_remove(L, -2);
}

// code -> the function that has the prompt's locals, or nil and a message or nothing.
int bind_locals(lua_State* L) {
  push_repl(L, "bind");
  lua_insert(L, 1);
  lua_call(L, 1, 2);
  return 2;
}

int print_values(lua_State* L) {
  lua_pushvalue(L, 1);
  lua_setglobal(L, "_");
  push_repl(L, "shown");
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  if (lua_isnil(L, -1)) return 0;  // it was a command
  size_t size = 0;
  const char* text = luaL_checklstring(L, -1, &size);
  std::fwrite(text, 1, size, stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  return 0;
}

}  // namespace

int open_prompt(lua_State* L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet");
  lua_call(L, 1, 1);
  lua_setglobal(L, "ml");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.repl.commands");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "install");
  lua_pushglobaltable(L);
  lua_call(L, 1, 0);
  return 0;
}

void push_prompt_block(lua_State* L) { push_repl(L, "block"); }

Typed compile_typed(lua_State* L, const std::string& code, std::string* compiled) {
  const bool is_shown = !code.empty() && code[0] == '=';
  const std::string plain = is_shown ? "return " + code.substr(1) : code;
  *compiled = "return " + plain;
  if (compile(L, *compiled)) return Typed::kReady;
  lua_pop(L, 1);
  *compiled = plain;
  if (compile(L, plain)) return Typed::kReady;
  return is_incomplete(L) ? Typed::kIncomplete : Typed::kFailed;
}

bool bind_typed(lua_State* L, const std::string& compiled) {
  lua_pushcfunction(L, guard<bind_locals>);
  lua_pushlstring(L, compiled.data(), compiled.size());
  if (lua_pcall(L, 1, 2, 0) != LUA_OK) {
    lua_replace(L, -2);
    return false;
  }
  const bool bound = !lua_isnil(L, -2), failed = !lua_isnil(L, -1);
  if (failed) {
    lua_replace(L, -3);
    lua_pop(L, 1);
    return false;
  }
  lua_pop(L, 1);
  if (bound)
    lua_replace(L, -2);
  else
    lua_pop(L, 1);
  return true;
}

bool run_typed(lua_State* L, int base) {
  int status = call_interruptible(L, 0, LUA_MULTRET);
  const int count = lua_gettop(L) - base;
  if (status == LUA_OK && count > 0) {
    luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
    lua_pushcfunction(L, guard<print_values>);
    lua_insert(L, base + 1);
    status = call_interruptible(L, count, 0);
  }
  if (status != LUA_OK) report_error(L, "");
  return status == LUA_OK;
}

}  // namespace moonlet
