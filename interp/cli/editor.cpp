// interp/cli/editor.cpp: the line editor over libedit's own interface.
// Ctrl-C arrives as a key instead of a signal, so nothing has to jump out of the editor.
#include "interp/cli/editor.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <histedit.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "interp/cli/complete.h"
#include "interp/cli/terminal_keys.h"
#include "interp/state/interrupt.h"
#include "tensor/core/error.h"
#include "tensor/io/files.h"

namespace moonlet {

struct LineEditor::Edit {
  EditLine* line = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::string history_path;
  const char* prompt = "";
  std::string above;
  bool interrupted = false;
  bool marks_pastes = false;  // the terminal was asked to
  lua_State* state = nullptr;
  TerminalKeys keys{STDIN_FILENO};
};

namespace {

constexpr int kHistorySize = 5000;

std::string history_file() {
  const char* path = std::getenv("MOONLET_HISTORY");
  if (path != nullptr) return path;
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/moonlet/history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.local/state/moonlet/history";
}

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string common_prefix(const std::vector<std::string>& names) {
  std::string prefix = names.front();
  for (const std::string& name : names) {
    size_t same = 0;
    while (same < prefix.size() && same < name.size() && prefix[same] == name[same]) ++same;
    prefix.resize(same);
  }
  return prefix;
}

void print_columns(const std::vector<std::string>& names) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size() + 2);
  const size_t columns = std::max<size_t>(1, static_cast<size_t>(terminal_columns()) / width);
  const size_t rows = (names.size() + columns - 1) / columns;
  std::fputc('\n', stdout);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = row; i < names.size(); i += rows) {
      const bool last = i + rows >= names.size();
      std::fprintf(stdout, "%-*s", last ? 0 : static_cast<int>(width), names[i].c_str());
    }
    std::fputc('\n', stdout);
  }
  std::fflush(stdout);
}

// The history as libedit stores it, which it does in files only; nothing when that fails.
std::string history_text(History* entries, HistEvent* event) {
  std::string text;
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return text;
  if (history(entries, event, H_SAVE_FP, file) >= 0) {
    text.resize(static_cast<size_t>(std::ftell(file)));
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
  }
  std::fclose(file);
  return text;
}

// Makes the file private to its user before anything is written to it. A prompt ends the same way
// where it cannot keep its history.
void save_history(History* entries, HistEvent* event, const std::string& path) {
  const std::string text = path.empty() ? std::string() : history_text(entries, event);
  if (text.empty()) return;
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  struct stat info;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) ::fchmod(fd, 0600);
  ::close(fd);
  try {
    io::write_file(path, {text});
  } catch (const Error&) {
  }
}

// The sequences that keys send and that libedit has commands for, from the list that it prints:
// `"^[[A"   ->  ed-prev-history`.
std::set<std::string> bound_sequences(EditLine* line) {
  std::set<std::string> lines;
  char* text = nullptr;
  size_t size = 0;
  std::FILE* memory = ::open_memstream(&text, &size);
  if (memory == nullptr) return lines;
  el_set(line, EL_SETFP, 1, memory);
  el_set(line, EL_BIND, nullptr);
  el_set(line, EL_SETFP, 1, stdout);
  std::fclose(memory);
  std::istringstream in(std::string(text, size));
  std::free(text);
  for (std::string each; std::getline(in, each);)
    if (each.starts_with("\"^[")) lines.insert(each);
  return lines;
}

std::string sequence_of(const std::string& line) {
  std::string sequence;
  for (size_t i = 1; i < line.size() && line[i] != '"'; ++i) {
    const bool control = line[i] == '^' && i + 1 < line.size();
    sequence += !control ? line[i] : line[++i] == '?' ? '\x7f' : static_cast<char>(line[i] & 0x1f);
  }
  return sequence;
}

// Reads the user's own key bindings in ~/.editrc, then binds what TerminalKeys gives.
void bind_keys(EditLine* line, TerminalKeys* keys) {
  const std::set<std::string> before = bound_sequences(line);
  el_source(line, nullptr);
  TerminalKeys::Sequences bound, by_user;
  for (const std::string& each : bound_sequences(line)) {
    bound.insert(sequence_of(each));
    if (!before.contains(each)) by_user.insert(sequence_of(each));
  }
  const char* mode = nullptr;
  const bool vi = el_get(line, EL_EDITOR, &mode) == 0 && std::strcmp(mode, "vi") == 0;
  keys->set_bound(std::move(bound), std::move(by_user));
  keys->set_escape_alone(vi);
  for (const KeyCommand& key : kKeyCommands) {
    const char sequence[] = {kKeyLead, key.letter, '\0'};
    el_set(line, EL_BIND, sequence, key.command, nullptr);
    if (vi) el_set(line, EL_BIND, "-a", sequence, key.command, nullptr);
  }
}

// Whether the terminal may know how to mark what is pasted.
bool can_mark_pastes() {
  const char* name = std::getenv("TERM");
  return name != nullptr && *name != '\0' && std::strcmp(name, "dumb") != 0;
}

// While alive, Ctrl-C is a signal again, which stops what completion calls.
class SignalsOn {
 public:
  explicit SignalsOn(lua_State* L) : interrupts_(L) {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios with = before_;
    with.c_lflag |= ISIG;
    changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &with) == 0;
  }
  ~SignalsOn() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  SignalsOn(const SignalsOn&) = delete;
  SignalsOn& operator=(const SignalsOn&) = delete;

 private:
  InterruptScope interrupts_;
  termios before_{};
  bool changed_ = false;
};

Completions complete_interruptible(lua_State* L, const std::string& text,
                                   const std::string& above) {
  const SignalsOn signals(L);
  return complete(L, text, above);
}

}  // namespace

// libedit calls these with its own handle; the Edit is its client data.
namespace editor_keys {

template <class Edit>
Edit& edit_of(EditLine* line) {
  void* data = nullptr;
  el_get(line, EL_CLIENTDATA, &data);
  return *static_cast<Edit*>(data);
}

template <class Edit>
char* prompt(EditLine* line) {
  return const_cast<char*>(edit_of<Edit>(line).prompt);
}

// Asks the terminal to put marks around what is pasted, or no longer.
template <class Edit>
void mark_pastes(Edit& edit, bool on) {
  if (on == edit.marks_pastes || (on && !can_mark_pastes())) return;
  edit.marks_pastes = on;
  std::fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
  std::fflush(stdout);
}

template <class Edit>
int next_character(EditLine* line, wchar_t* c) {
  Edit& edit = edit_of<Edit>(line);
  const LineInfo* info = el_line(line);
  const std::string_view before(info->buffer, info->cursor), after(info->cursor, info->lastchar);
  const int status =
      edit.keys.next(c, before.find('\n') != before.npos, after.find('\n') != after.npos);
  if (status == 1 && (*c == L'\n' || *c == L'\r')) mark_pastes(edit, false);
  return status;
}

template <class Edit>
unsigned char interrupt(EditLine* line, int) {
  edit_of<Edit>(line).interrupted = true;
  std::fputs("^C\n", stdout);
  std::fflush(stdout);
  return CC_EOF;
}

template <class Edit>
unsigned char tab(EditLine* line, int) {
  const LineInfo* info = el_line(line);
  const std::string text(info->buffer, info->cursor);
  if (text.find_first_not_of(" \t") == text.npos) {
    return el_insertstr(line, "  ") == 0 ? CC_REFRESH : CC_ERROR;
  }
  const Edit& edit = edit_of<Edit>(line);
  const Completions found = complete_interruptible(edit.state, text, edit.above);
  if (found.names.empty()) return CC_REFRESH_BEEP;
  const size_t typed = text.size() - found.word;
  const std::string prefix = common_prefix(found.names);
  if (prefix.size() > typed) {
    return el_insertstr(line, prefix.c_str() + typed) == 0 ? CC_REFRESH : CC_ERROR;
  }
  if (found.names.size() == 1) return CC_NORM;
  print_columns(found.names);
  return CC_REDISPLAY;
}

}  // namespace editor_keys

const bool LineEditor::kCompletes = true;

LineEditor::LineEditor(lua_State* L) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return;
  auto edit = std::make_unique<Edit>();
  edit->state = L;
  edit->line = el_init("moonlet", stdin, stdout, stderr);
  if (edit->line == nullptr) return;
  edit->history = history_init();
  el_set(edit->line, EL_CLIENTDATA, edit.get());
  el_set(edit->line, EL_PROMPT, editor_keys::prompt<Edit>);
  el_set(edit->line, EL_EDITOR, "emacs");
  el_set(edit->line, EL_ADDFN, "ml-interrupt", "Clear the line", editor_keys::interrupt<Edit>);
  el_set(edit->line, EL_ADDFN, "ml-complete", "Complete the name", editor_keys::tab<Edit>);
  if (edit->history != nullptr) {
    history(edit->history, &edit->event, H_SETSIZE, kHistorySize);
    history(edit->history, &edit->event, H_SETUNIQUE, 1);
    el_set(edit->line, EL_HIST, history, edit->history);
    edit->history_path = history_file();
    if (!edit->history_path.empty()) {
      history(edit->history, &edit->event, H_LOAD, edit->history_path.c_str());
    }
  }
  bind_keys(edit->line, &edit->keys);
  el_set(edit->line, EL_GETCFN, editor_keys::next_character<Edit>);
  el_set(edit->line, EL_SETTY, "-d", "-isig", nullptr);
  el_set(edit->line, EL_BIND, "^C", "ml-interrupt", nullptr);
  el_set(edit->line, EL_BIND, "^I", "ml-complete", nullptr);
  el_set(edit->line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  edit_ = std::move(edit);
}

LineEditor::~LineEditor() {
  if (edit_ == nullptr) return;
  if (edit_->history != nullptr) history_end(edit_->history);
  el_end(edit_->line);
}

LineEditor::Result LineEditor::read_plainly(const char* prompt, std::string* line) {
  std::fputs(prompt, stdout);
  std::fflush(stdout);
  const PromptReadScope scope;
  int c = 0;
  while ((c = std::getc(stdin)) != EOF && c != '\n') line->push_back(static_cast<char>(c));
  if (c == EOF && scope.interrupted()) {
    std::clearerr(stdin);
    return Result::kInterrupted;
  }
  return c == EOF && line->empty() ? Result::kEnd : Result::kLine;
}

LineEditor::Result LineEditor::read(const char* prompt, const std::string& above,
                                    std::string* line) {
  line->clear();
  if (edit_ == nullptr) {
    return read_plainly(prompt, line);
  }
  edit_->prompt = prompt;
  edit_->above = above;
  edit_->interrupted = false;
  int count = 0;
  const char* text = nullptr;
  bool stopped = false;
  editor_keys::mark_pastes(*edit_, true);
  {
    const PromptReadScope scope;
    text = el_gets(edit_->line, &count);
    stopped = text == nullptr && scope.interrupted();  // by a signal, not by the key
  }
  editor_keys::mark_pastes(*edit_, false);
  if (stopped) std::fputc('\n', stdout);
  if (stopped || edit_->interrupted) {
    el_reset(edit_->line);
    return Result::kInterrupted;
  }
  if (text == nullptr || count <= 0) return Result::kEnd;
  line->assign(text, static_cast<size_t>(count));
  while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->pop_back();
  return Result::kLine;
}

void LineEditor::remember(const std::string& statement) {
  if (edit_ == nullptr || edit_->history == nullptr) return;
  if (statement.find_first_not_of(" \t\r\n") == statement.npos) return;
  history(edit_->history, &edit_->event, H_ENTER, (statement + "\n").c_str());
  save_history(edit_->history, &edit_->event, edit_->history_path);  // os.exit may be next
}

bool LineEditor::drop_pasted() { return edit_ != nullptr && edit_->keys.drop_pasted(); }

}  // namespace moonlet
