// interp/cli/editor_plain.cpp: lines as the terminal gives them, where there is no libedit. The
// console of Windows edits a line and remembers earlier ones by itself.
#include <chrono>
#include <cstdio>
#include <thread>

#include "interp/cli/editor.h"
#include "interp/state/interrupt.h"
#include "tensor/core/platform/process.h"

namespace moonlet {

struct LineEditor::Edit {};

namespace {
// Milliseconds for the handler of a Ctrl-C that has ended a read already.
constexpr int kPatience = 1000;
}  // namespace

const bool LineEditor::kCompletes = false;

LineEditor::LineEditor(lua_State*) {}
LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read_plainly(const char* prompt, std::string* line) {
  std::fputs(prompt, stdout);
  std::fflush(stdout);
  const PromptReadScope scope;
  const platform::LineRead read = platform::read_line(*line);
  const bool aborted = read == platform::LineRead::kInterrupted;
  for (int i = 0; aborted && !scope.interrupted() && i < kPatience; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (aborted || scope.interrupted()) {
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
