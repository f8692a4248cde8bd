// interp/repl.cpp: read, run, print. Expressions print themselves and stay in `_`.
#include "interp/repl.h"

#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <langinfo.h>
#include <unistd.h>

#include "interp/editor.h"
#include "interp/guard.h"
#include "interp/report.h"
#include "interp/state.h"

namespace moonlet {
namespace {

constexpr const char* kChunkName = "=stdin";
constexpr const char* kPrompt = "> ";
constexpr const char* kContinuePrompt = ">> ";

enum class Read { kReady, kFailed, kInterrupted, kEnd };

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

// Leaves a compiled statement (kReady) or an error message (kFailed) on the stack.
Read read_statement(lua_State* L, LineEditor& editor) {
  std::string code;
  std::string line;
  for (const char* prompt = kPrompt;; prompt = kContinuePrompt) {
    const bool first = prompt == kPrompt;
    switch (editor.read(prompt, first ? code : code + "\n", &line)) {
      case LineEditor::Result::kEnd:
        if (code.empty()) return Read::kEnd;
        compile(L, code);  // an end inside a statement: say what is missing
        return Read::kFailed;
      case LineEditor::Result::kInterrupted: return Read::kInterrupted;
      case LineEditor::Result::kLine: break;
    }
    if (first && !line.empty() && line[0] == '=') line.replace(0, 1, "return ");
    code += first ? line : "\n" + line;
    if (compile(L, "return " + code)) return Read::kReady;
    lua_pop(L, 1);
    if (compile(L, code)) return Read::kReady;
    if (!is_incomplete(L)) return Read::kFailed;
    lua_pop(L, 1);
  }
}

int print_values(lua_State* L) {
  lua_pushvalue(L, 1);
  lua_setglobal(L, "_");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.repl");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "text");
  lua_replace(L, -2);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  size_t size = 0;
  const char* text = luaL_checklstring(L, -1, &size);
  std::fwrite(text, 1, size, stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  return 0;
}

void run_statement(lua_State* L) {
  int status = call_interruptible(L, 0, LUA_MULTRET);
  const int count = lua_gettop(L);
  if (status == LUA_OK && count > 0) {
    luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
    lua_pushcfunction(L, guard<print_values>);
    lua_insert(L, 1);
    status = call_interruptible(L, count, 0);
  }
  if (status != LUA_OK) report_error(L, "");
}

int open_libraries(lua_State* L) {
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

// How the editor reads what is typed: as the locale says, but as UTF-8, which nearly every terminal
// sends, where the locale knows no more than ASCII.
void set_encoding() {
  const char* name = std::setlocale(LC_CTYPE, "");
  if (name == nullptr || std::strcmp(::nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

// The loop runs as a Lua C function, so that running out of memory between statements is an error
// like any other.
int loop(lua_State* L) {
  LineEditor editor(L);
  for (;;) {
    lua_settop(L, 0);
    switch (read_statement(L, editor)) {
      case Read::kReady: run_statement(L); break;
      case Read::kFailed: report_error(L, ""); break;
      case Read::kInterrupted: break;
      case Read::kEnd:
        if (::isatty(STDOUT_FILENO) != 0) std::fputc('\n', stdout);
        std::fflush(stdout);
        return 0;
    }
  }
}

}  // namespace

void run_repl(lua_State* L, bool banner) {
  set_encoding();
  if (banner) {
    std::printf("Moonlet %s, on %s. Ctrl-D leaves, Tab completes.\n", version(), LUA_RELEASE);
  }
  lua_pushcfunction(L, guard<open_libraries>);
  if (call_interruptible(L, 0, 0) != LUA_OK) report_error(L, "moonlet");
  lua_pushcfunction(L, guard<loop>);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) report_error(L, "moonlet");
}

}  // namespace moonlet
