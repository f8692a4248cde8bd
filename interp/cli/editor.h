// interp/cli/editor.h: reads lines from a terminal with editing, history and completion (libedit),
// or plainly from standard input when it is no terminal.
#pragma once

#include <memory>
#include <string>

#include "lua.hpp"

namespace moonlet {

class LineEditor {
 public:
  enum class Result { kLine, kInterrupted, kEnd };
  static const bool kCompletes;  // what is typed, at Tab

  // Edits when stdin and stdout are terminals. History is kept in MOONLET_HISTORY, else in
  // moonlet/history under XDG_STATE_HOME or ~/.local/state.
  explicit LineEditor(lua_State* L);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // Reads one line, without its newline. `above` holds the lines of the statement that are there
  // already. Ctrl-C gives kInterrupted, Ctrl-D on an empty line kEnd.
  Result read(const char* prompt, const std::string& above, std::string* line);

  // Makes the lines of a statement one entry of the history.
  void remember(const std::string& statement);

  // Leaves out what was pasted behind the last line. Returns whether there was any.
  bool drop_pasted();

 private:
  Result read_plainly(const char* prompt, std::string* line);

  struct Edit;
  std::unique_ptr<Edit> edit_;  // null when lines are read plainly
};

}  // namespace moonlet
