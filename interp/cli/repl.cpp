// interp/cli/repl.cpp: read, run, print. Expressions print themselves and stay in `_`.
#include "interp/cli/repl.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "interp/cli/editor.h"
#include "interp/cli/report.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/platform/process.h"

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

// The text that compiles as a statement or, behind "return ", as an expression.
bool compile_either(lua_State* L, const std::string& code, std::string* compiled) {
  *compiled = "return " + code;
  if (compile(L, *compiled)) return true;
  lua_pop(L, 1);
  *compiled = code;
  return compile(L, code);
}

// Leaves a statement that compiles (kReady), its text in `compiled`, or an error message (kFailed)
// on the stack. `typed` is what was typed of it.
Read read_lines(lua_State* L, LineEditor& editor, std::string* typed, std::string* compiled) {
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
    *typed += first ? line : "\n" + line;
    if (first && !line.empty() && line[0] == '=') line.replace(0, 1, "return ");
    code += first ? line : "\n" + line;
    if (compile_either(L, code, compiled)) return Read::kReady;
    if (!is_incomplete(L)) return Read::kFailed;
    lua_pop(L, 1);
  }
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

Read read_statement(lua_State* L, LineEditor& editor) {
  std::string typed, code;
  const Read read = read_lines(L, editor, &typed, &code);
  editor.remember(typed);  // a block is one entry
  if (read != Read::kReady) return read;
  lua_pushcfunction(L, guard<bind_locals>);
  lua_pushlstring(L, code.data(), code.size());
  if (lua_pcall(L, 1, 2, 0) != LUA_OK) {
    lua_replace(L, -2);
    return Read::kFailed;
  }
  const bool bound = !lua_isnil(L, -2), failed = !lua_isnil(L, -1);
  if (failed) {
    lua_replace(L, -3);
    lua_pop(L, 1);
    return Read::kFailed;
  }
  lua_pop(L, 1);
  if (bound)
    lua_replace(L, -2);
  else
    lua_pop(L, 1);
  return Read::kReady;
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

// Runs the function on top of the stack, where it is the only value above `base`.
bool run_statement(lua_State* L, int base) {
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

// A line that fails ends what was pasted with it, as an error ends a script.
void fail_pasted(LineEditor& editor) {
  if (!editor.drop_pasted()) return;
  std::fputs("(the lines that were pasted behind it are left out)\n", stdout);
  std::fflush(stdout);
}

// The loop runs as a Lua C function, so that running out of memory between statements is an error
// like any other. At the bottom of its stack is what ends the `<close>` variables of the prompt,
// also when a line calls os.exit.
int loop(lua_State* L) {
  lua_settop(L, 0);
  push_repl(L, "block");
  lua_toclose(L, 1);
  LineEditor editor(L);
  for (;;) {
    lua_settop(L, 1);
    switch (read_statement(L, editor)) {
      case Read::kReady:
        if (!run_statement(L, 1)) fail_pasted(editor);
        break;
      case Read::kFailed:
        report_error(L, "");
        fail_pasted(editor);
        break;
      case Read::kInterrupted: editor.drop_pasted(); break;
      case Read::kEnd:
        if (platform::is_terminal(1)) std::fputc('\n', stdout);
        std::fflush(stdout);
        return 0;
    }
  }
}

}  // namespace

void run_repl(lua_State* L, bool banner) {
  platform::use_utf8_terminal();
  if (banner) {
    std::printf("Moonlet %s, on %s. %s leaves%s.\n", version(), LUA_RELEASE, platform::kEndKeys,
                LineEditor::kCompletes ? ", Tab completes" : "");
  }
  lua_pushcfunction(L, guard<open_libraries>);
  if (call_interruptible(L, 0, 0) != LUA_OK) report_error(L, "moonlet");
  lua_pushcfunction(L, guard<loop>);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) report_error(L, "moonlet");
}

}  // namespace moonlet
