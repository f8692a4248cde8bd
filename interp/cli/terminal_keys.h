// interp/cli/terminal_keys.h: what terminals send for keys and pastes, as characters for libedit.
#pragma once

#include <string>
#include <unordered_set>

namespace moonlet {

// Reads the bytes of a terminal. xterm, tmux, screen, rxvt and consoles send different sequences
// for one key; each becomes kKeyLead and a letter (key_commands), which the editor binds. Sequences
// that nobody knows are left out whole. The text of a bracketed paste is inserted as it is.
class TerminalKeys {
 public:
  using Sequences = std::unordered_set<std::string>;

  explicit TerminalKeys(int fd) : fd_(fd) {}

  // The sequences that the editor knows by itself, which pass, and those that the user bound, which
  // pass even where they are those of a key.
  void set_bound(Sequences bound, Sequences by_user);
  // Whether an escape key alone is a command, as in vi's mode; else it goes with the next key.
  void set_escape_alone(bool alone) { escape_alone_ = alone; }

  // `above` and `below` say whether the line that is edited has lines above and below the cursor.
  // Returns 1; 0 at the end; -1 after an error or a signal, with errno.
  int next(wchar_t* c, bool above, bool below);

  // Forgets what was pasted and not read yet. Returns whether there was any.
  bool drop_pasted();

 private:
  int read_byte(unsigned char* byte);
  bool has_more(int milliseconds) const;
  int read_character(unsigned char first, wchar_t* c);
  int read_sequence(std::string* sequence);
  int read_control(std::string* sequence, bool in_csi);
  int read_string(std::string* sequence);
  int read_paste();
  void queue_paste(const std::string& text);
  int take(const std::string& sequence, bool above, bool below);

  int fd_;
  std::string unread_;  // bytes that were read too far, the next one last
  std::wstring queue_;  // characters for the editor
  size_t queued_ = 0;   // of which so many were given
  bool queue_is_paste_ = false;
  bool escape_alone_ = false;
  Sequences bound_, by_user_;
};

// What a key is bound to: the letter behind kKeyLead and the editor's command.
struct KeyCommand {
  char letter;
  const char* command;
};
inline constexpr char kKeyLead = '\x1e';
inline constexpr KeyCommand kKeyCommands[] = {
    {'A', "ed-prev-history"},     {'B', "ed-next-history"},     {'C', "ed-next-char"},
    {'D', "ed-prev-char"},        {'E', "ed-move-to-end"},      {'H', "ed-move-to-beg"},
    {'I', "em-toggle-overwrite"}, {'X', "ed-delete-next-char"}, {'a', "ed-prev-line"},
    {'b', "ed-next-line"},        {'c', "em-next-word"},        {'d', "ed-prev-word"},
    {'x', "em-delete-next-word"}, {'q', "ed-quoted-insert"}};

}  // namespace moonlet
