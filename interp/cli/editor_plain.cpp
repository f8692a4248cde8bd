// interp/cli/editor_plain.cpp: lines as the terminal gives them, where there is no libedit. The
// console of Windows edits a line and remembers earlier ones by itself.
#include <cstdio>

#include "interp/cli/editor.h"
#include "interp/state/interrupt.h"
#include "tensor/core/platform/process.h"

namespace moonlet {

struct LineEditor::Edit {};

LineEditor::LineEditor(lua_State*) {}
LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read_plainly(const char* prompt, std::string* line) {
  std::fputs(prompt, stdout);
  std::fflush(stdout);
  const PromptReadScope scope;
  const platform::LineRead read = platform::read_line(*line);
  if (scope.interrupted()) {
    std::clearerr(stdin);
    std::fputs("^C\n", stdout);
    return Result::kInterrupted;
  }
  return read == platform::LineRead::kEnd && line->empty() ? Result::kEnd : Result::kLine;
}

LineEditor::Result LineEditor::read(const char* prompt, const std::string&, std::string* line) {
  line->clear();
  return read_plainly(prompt, line);
}

void LineEditor::remember(const std::string&) {}

bool LineEditor::drop_pasted() { return false; }

}  // namespace moonlet
