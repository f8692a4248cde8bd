// interp/cli/repl.cpp: read, run, print. Expressions print themselves and stay in `_`.
#include "interp/cli/repl.h"

#include <cstdio>
#include <string>

#include "interp/cli/editor.h"
#include "interp/cli/report.h"
#include "interp/cli/statement.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/platform/process.h"

namespace moonlet {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kContinuePrompt = ">> ";

enum class Read { kReady, kFailed, kInterrupted, kEnd };

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
        compile_typed(L, code, compiled);  // an end inside a statement: say what is missing
        return Read::kFailed;
      case LineEditor::Result::kInterrupted: return Read::kInterrupted;
      case LineEditor::Result::kLine: break;
    }
    *typed += first ? line : "\n" + line;
    code += first ? line : "\n" + line;
    const Typed outcome = compile_typed(L, code, compiled);
    if (outcome != Typed::kIncomplete)
      return outcome == Typed::kReady ? Read::kReady : Read::kFailed;
    lua_pop(L, 1);
  }
}

Read read_statement(lua_State* L, LineEditor& editor) {
  std::string typed, code;
  const Read read = read_lines(L, editor, &typed, &code);
  editor.remember(typed);  // a block is one entry
  if (read != Read::kReady) return read;
  return bind_typed(L, code) ? Read::kReady : Read::kFailed;
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
  push_prompt_block(L);
  lua_toclose(L, 1);
  LineEditor editor(L);
  for (;;) {
    lua_settop(L, 1);
    switch (read_statement(L, editor)) {
      case Read::kReady:
        if (!run_typed(L, 1)) fail_pasted(editor);
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
  lua_pushcfunction(L, guard<open_prompt>);
  if (call_interruptible(L, 0, 0) != LUA_OK) report_error(L, "moonlet");
  lua_pushcfunction(L, guard<loop>);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) report_error(L, "moonlet");
}

}  // namespace moonlet
