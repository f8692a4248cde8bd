// interp/cli/terminal_keys.cpp: the escape sequences of terminals.
#include "interp/cli/terminal_keys.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <string_view>

#include <poll.h>
#include <unistd.h>

namespace moonlet {
namespace {

constexpr unsigned char kEscape = 0x1b;
// How long the rest of a sequence may take to come, over a slow line, and the next byte of a paste.
constexpr int kRestMilliseconds = 500, kPasteMilliseconds = 5000;
// How soon a byte follows that begins as a string of the terminal does (Alt-P and DCS).
constexpr int kAtOnceMilliseconds = 30;
constexpr size_t kLongest = 64;  // of what a sequence is known by
constexpr std::string_view kPasteEnd = "\x1b[201~";

enum Modifiers { kShift = 1, kAlt = 2, kControl = 4, kMeta = 8 };

// The letter of a key, 0 for one that the editor has no command for.
char letter_of(char key, int modifiers) {
  const bool word = (modifiers & (kAlt | kControl | kMeta)) != 0;
  switch (key) {
    case 'C': return word ? 'c' : 'C';
    case 'D': return word ? 'd' : 'D';
    case 'X': return word ? 'x' : 'X';
    default: return key;
  }
}

// Of the number before "~".
char numbered_key(int number) {
  switch (number) {
    case 1:
    case 7: return 'H';
    case 2: return 'I';
    case 3: return 'X';
    case 4:
    case 8: return 'E';
    default: return '\0';  // PageUp and PageDown, too: the editor has no pages
  }
}

char lettered_key(char final) {
  if (final >= 'A' && final <= 'D') return final;
  return final == 'H' ? 'H' : final == 'F' ? 'E' : '\0';
}

// The numbers of "1;5", of which there are at most two; what follows a colon is left out.
struct Parameters {
  int count = 0;
  int value[2] = {0, 0};
};

bool read_parameters(std::string_view text, Parameters* out) {
  bool in_part = false;
  for (const char c : text) {
    if (c == ';') {
      if (++out->count > 1) return false;
      in_part = false;
    } else if (c == ':') {
      in_part = true;
    } else if (c >= '0' && c <= '9') {
      int& value = out->value[out->count];
      if (!in_part && value < 10000) value = 10 * value + (c - '0');
    } else {
      return false;
    }
  }
  if (!text.empty()) ++out->count;
  return true;
}

// "\e[1;5D", "\e[3~", rxvt's "\e[7^"; `text` is what follows "\e[".
char control_key(std::string_view text, int modifiers) {
  const char final = text.back();
  Parameters given;
  if (!read_parameters(text.substr(0, text.size() - 1), &given)) return '\0';
  const int last = given.count > 0 ? given.value[given.count - 1] : 0;
  if (std::strchr("~$^@", final) != nullptr) {
    if (given.count == 2 && given.value[1] > 1) modifiers |= given.value[1] - 1;
    if (final == '^' || final == '@') modifiers |= kControl;
    return letter_of(numbered_key(given.value[0]), modifiers);
  }
  if (last > 1) modifiers |= last - 1;  // "\e[5D" is "\e[1;5D" of older terminals
  if (final >= 'a' && final <= 'd') return letter_of(final - 'a' + 'A', modifiers | kShift);
  return letter_of(lettered_key(final), modifiers);
}

// "\eOH", "\eO5D", rxvt's "\eOd"; `text` is what follows "\eO".
char keypad_key(std::string_view text, int modifiers) {
  const char final = text.back();
  Parameters given;
  if (!read_parameters(text.substr(0, text.size() - 1), &given)) return '\0';
  if (given.count > 0 && given.value[given.count - 1] > 1)
    modifiers |= given.value[given.count - 1] - 1;
  if (final >= 'a' && final <= 'd') return letter_of(final - 'a' + 'A', modifiers | kControl);
  return letter_of(lettered_key(final), modifiers);
}

// What a key of the keypad types in application mode, "\eOq" and "\eOM"; 0 for other keys.
char keypad_character(std::string_view text) {
  if (text.size() != 1) return '\0';
  const char final = text[0];
  if (final >= 'p' && final <= 'y') return static_cast<char>('0' + (final - 'p'));
  if (final >= 'j' && final <= 'o') return static_cast<char>('*' + (final - 'j'));
  return final == 'M' ? '\r' : final == 'X' ? '=' : final == ' ' ? ' ' : '\0';
}

bool is_string_start(unsigned char c) { return std::strchr("]P_^X", c) != nullptr && c != '\0'; }

}  // namespace

void TerminalKeys::set_bound(Sequences bound, Sequences by_user) {
  bound_ = std::move(bound);
  by_user_ = std::move(by_user);
}

bool TerminalKeys::drop_pasted() {
  const bool had = queue_is_paste_ && queued_ < queue_.size();
  if (had) {
    queue_.clear();
    queued_ = 0;
  }
  return had;
}

int TerminalKeys::next(wchar_t* c, bool above, bool below) {
  *c = L'\0';
  for (;;) {
    if (queued_ < queue_.size()) {
      *c = queue_[queued_++];
      return 1;
    }
    queue_.clear();
    queued_ = 0;
    queue_is_paste_ = false;
    unsigned char first = 0;
    int status = read_byte(&first);
    if (status != 1) return status;
    if (first == static_cast<unsigned char>(kKeyLead)) continue;  // a key that means nothing
    if (first != kEscape) {
      status = read_character(first, c);
      if (status != 1 || *c != L'\0') return status;
      continue;
    }
    std::string sequence(1, static_cast<char>(kEscape));
    status = read_sequence(&sequence);
    if (status == 1) status = take(sequence, above, below);
    if (status != 1) return status;
  }
}

int TerminalKeys::read_byte(unsigned char* byte) {
  if (!unread_.empty()) {
    *byte = static_cast<unsigned char>(unread_.back());
    unread_.pop_back();
    return 1;
  }
  const ssize_t count = ::read(fd_, byte, 1);
  if (count == 0) errno = 0;
  return static_cast<int>(count);
}

bool TerminalKeys::has_more(int milliseconds) const {
  if (!unread_.empty()) return true;
  pollfd waiting{fd_, POLLIN, 0};
  return ::poll(&waiting, 1, milliseconds) > 0;
}

// A character of one or more bytes; 0 for bytes that are none.
int TerminalKeys::read_character(unsigned char first, wchar_t* c) {
  char bytes[MB_LEN_MAX];
  size_t count = 0;
  for (unsigned char byte = first;;) {
    bytes[count++] = static_cast<char>(byte);
    std::mbstate_t state{};
    const size_t size = std::mbrtowc(c, bytes, count, &state);
    if (size == static_cast<size_t>(-1)) {
      if (count > 1) unread_.push_back(static_cast<char>(byte));  // may begin another one
      *c = L'\0';
      return 1;
    }
    if (size != static_cast<size_t>(-2)) return 1;
    if (count == sizeof bytes) {
      *c = L'\0';
      return 1;
    }
    const int status = read_byte(&byte);
    if (status != 1) return status;
  }
}

// What follows an escape.
int TerminalKeys::read_sequence(std::string* sequence) {
  if (escape_alone_ && !has_more(kAtOnceMilliseconds)) return 1;
  unsigned char c = 0;
  const int status = read_byte(&c);
  if (status != 1) return status;
  if (c >= 0x80 || c == '\r' || c == '\n' || c == '\x03') {
    unread_.push_back(static_cast<char>(c));
    return 1;
  }
  sequence->push_back(static_cast<char>(c));
  if (c == kEscape) return has_more(kAtOnceMilliseconds) ? read_sequence(sequence) : 1;
  if (c == '[' || c == 'O') return read_control(sequence, c == '[');
  if (is_string_start(c) && has_more(kAtOnceMilliseconds)) return read_string(sequence);
  return 1;
}

// Behind "\e[" and "\eO", as far as the byte that ends it.
int TerminalKeys::read_control(std::string* sequence, bool in_csi) {
  for (bool first = true; has_more(kRestMilliseconds); first = false) {
    unsigned char c = 0;
    const int status = read_byte(&c);
    if (status != 1) return status;
    if (c < 0x20 || c > 0x7e) {  // another key
      unread_.push_back(static_cast<char>(c));
      return 1;
    }
    if (sequence->size() < kLongest) sequence->push_back(static_cast<char>(c));
    const bool function_key = in_csi && first && c == '[';  // "\e[[A" of the Linux console
    const bool rxvt_shift =
        c == '$' && sequence->find_first_not_of("0123456789$", 2) == sequence->npos;
    const bool keypad_space = !in_csi && first && c == ' ';
    if (rxvt_shift || keypad_space || (c >= 0x40 && !function_key)) return 1;
  }
  return 1;
}

// What a terminal says of itself, as far as BEL or "\e\\".
int TerminalKeys::read_string(std::string* sequence) {
  for (unsigned char before = 0; has_more(kRestMilliseconds);) {
    unsigned char c = 0;
    const int status = read_byte(&c);
    if (status != 1) return status;
    if (sequence->size() < kLongest) sequence->push_back(static_cast<char>(c));
    if (c == '\a' || (before == kEscape && c == '\\')) return 1;
    before = c;
  }
  return 1;
}

int TerminalKeys::read_paste() {
  std::string text;
  while (has_more(kPasteMilliseconds)) {
    unsigned char c = 0;
    const int status = read_byte(&c);
    if (status != 1) return status;
    text.push_back(static_cast<char>(c));
    if (text.ends_with(kPasteEnd)) {
      text.resize(text.size() - kPasteEnd.size());
      break;
    }
  }
  queue_paste(text);
  return 1;
}

// Ends of lines are the key that ends a line; before other control characters comes the command
// that takes the next one as it is.
void TerminalKeys::queue_paste(const std::string& text) {
  queue_is_paste_ = true;
  std::mbstate_t state{};
  for (size_t at = 0; at < text.size();) {
    wchar_t c = 0;
    size_t size = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    const bool valid = size != 0 && size <= text.size();
    if (!valid) {
      state = {};
      size = 1;
    }
    const bool line_end = c == L'\n' || (c == L'\r' && text[at + 1] != '\n');
    at += size;
    if (!valid || (c == L'\r' && !line_end)) continue;
    if (line_end) {
      queue_ += L'\n';
      continue;
    }
    if (c < 0x20 || c == 0x7f) {
      queue_ += static_cast<wchar_t>(kKeyLead);
      queue_ += L'q';
    }
    queue_ += c;
  }
}

// Puts what a sequence means for the editor into the queue: nothing when nobody knows it.
int TerminalKeys::take(const std::string& sequence, bool above, bool below) {
  const auto pass = [&] { queue_.assign(sequence.begin(), sequence.end()); };
  if (sequence.size() == 1) {
    if (escape_alone_) pass();
    return 1;
  }
  if (by_user_.contains(sequence)) {
    pass();
    return 1;
  }
  std::string_view rest = std::string_view(sequence).substr(1);
  int modifiers = 0;
  while (rest.starts_with(static_cast<char>(kEscape))) {  // rxvt's Alt
    rest.remove_prefix(1);
    modifiers = kAlt;
  }
  if (rest == "[200~") return read_paste();
  char letter = '\0';
  if (rest.size() > 1 && rest[0] == '[') {
    letter = control_key(rest.substr(1), modifiers);
  } else if (rest.size() > 1 && rest[0] == 'O') {
    const char typed = keypad_character(rest.substr(1));
    if (typed != '\0') {
      queue_ = static_cast<wchar_t>(typed);
      return 1;
    }
    letter = keypad_key(rest.substr(1), modifiers);
  }
  if (letter == 'A' && above) letter = 'a';
  if (letter == 'B' && below) letter = 'b';
  if (letter != '\0')
    queue_ = {static_cast<wchar_t>(kKeyLead), static_cast<wchar_t>(letter)};
  else if (bound_.contains(sequence))
    pass();
  return 1;
}

}  // namespace moonlet
