// interp/library/patterns.cpp: the backtracking of Lua's patterns, and what single items match.
#include "interp/library/patterns.h"

#include <ctype.h>

#include <cstring>

#include "tensor/runtime/stack.h"

namespace moonlet::library {
namespace {

constexpr char kEscape = '%';

unsigned char byte(char c) { return static_cast<unsigned char>(c); }

// A class such as %a by its letter, or a character that stands for itself. Classes follow the
// locale; an upper-case letter is what its lower-case one is not.
bool in_class(unsigned char c, unsigned char name) {
  int member = 0;
  switch (name | 0x20) {
    case 'a': member = isalpha(c); break;
    case 'c': member = iscntrl(c); break;
    case 'd': member = isdigit(c); break;
    case 'g': member = isgraph(c); break;
    case 'l': member = islower(c); break;
    case 'p': member = ispunct(c); break;
    case 's': member = isspace(c); break;
    case 'u': member = isupper(c); break;
    case 'w': member = isalnum(c); break;
    case 'x': member = isxdigit(c); break;
    case 'z': member = c == 0; break;  // in no manual since 5.1, but in Lua
    default: return name == c;
  }
  return (member != 0) == ((name & 0x20) != 0);
}

// Whether the set from '[' at `p` to ']' at `last` has `c`.
bool in_set(unsigned char c, const char* p, const char* last) {
  const bool inverted = p[1] == '^';
  if (inverted) ++p;
  for (++p; p < last; ++p) {
    bool found = false;
    if (*p == kEscape) {
      found = in_class(c, byte(*++p));
    } else if (p[1] == '-' && p + 2 < last) {
      found = byte(p[0]) <= c && c <= byte(p[2]);
      p += 2;
    } else {
      found = byte(*p) == c;
    }
    if (found) return !inverted;
  }
  return inverted;
}

}  // namespace

// --- items ---------------------------------------------------------------------------------------

// Behind the single item at `p`: a character, a class or a set.
const char* Matcher::item_end(const char* p) const {
  const char first = *p++;
  if (first == kEscape) {
    if (p == pattern_end_) luaL_error(L_, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  if (*p == '^') ++p;
  // A ']' that comes first is a member.
  for (bool more = true; more; more = *p != ']') {
    if (p == pattern_end_) luaL_error(L_, "malformed pattern (missing ']')");
    if (*p++ == kEscape && p < pattern_end_) ++p;
  }
  return p + 1;
}

// The levels of a deep pattern, on a thread whose stack is small.
void Matcher::check_depth() const {
  if (depth_ == kMaxDepth) luaL_error(L_, "pattern too complex");
  if (stack_is_short()) luaL_error(L_, "C stack overflow");
}

// Whether the item from `p` to `after` matches the character at `s`.
inline bool Matcher::matches_item(const char* s, const char* p, const char* after) const {
  if (s >= end_) return false;
  switch (*p) {
    case '.': return true;
    case kEscape: return in_class(byte(*s), byte(p[1]));
    case '[': return in_set(byte(*s), p, after - 1);
    default: return *p == *s;
  }
}

// The end of the longest run of characters from `s` on that match the item.
const char* Matcher::skip_items(const char* s, const char* p, const char* after) const {
  switch (*p) {
    case '.': return end_;
    case kEscape: {
      const unsigned char name = byte(p[1]);
      while (s < end_ && in_class(byte(*s), name)) ++s;
      return s;
    }
    case '[':
      while (s < end_ && in_set(byte(*s), p, after - 1)) ++s;
      return s;
    default:
      while (s < end_ && *s == *p) ++s;
      return s;
  }
}

// --- backtracking --------------------------------------------------------------------------------

const char* Matcher::match_rest(const char* s, const char* p) {
  while (p != pattern_end_) {
    poll_.spend(1);
    switch (*p) {
      case '(':
        return p[1] == ')' ? open_capture(s, p + 2, kPosition) : open_capture(s, p + 1, kOpen);
      case ')': return close_capture(s, p + 1);
      case '$':
        if (p + 1 == pattern_end_) return s == end_ ? s : nullptr;
        break;
      case kEscape: {
        const char* const item = p;
        const char* const next = match_escape(p, s);
        if (p == item) break;  // a class
        if (next == nullptr) return nullptr;
        s = next;
        continue;
      }
      default: break;
    }
    const char* const after = item_end(p);
    const char suffix = *after;
    if (!matches_item(s, p, after)) {
      if (suffix != '*' && suffix != '?' && suffix != '-') return nullptr;
      p = after + 1;  // none is enough, and all there are
      continue;
    }
    switch (suffix) {
      case '?':
        if (const char* end = run(s + 1, after + 1)) return end;
        p = after + 1;
        break;
      case '*': return longest_first(s, s, p, after);
      case '+': return longest_first(s, s + 1, p, after);
      case '-': return shortest_first(s, p, after);
      default: ++s; p = after;
    }
  }
  return s;
}

// What begins with '%' and is no class: goes on behind it in the pattern, and returns where in the
// subject, null when it does not match there. Leaves `p` for a class.
const char* Matcher::match_escape(const char*& p, const char* s) {
  const char kind = p[1];
  if (kind == 'b') {
    s = match_balanced(s, p + 2);
    p += 4;
    return s;
  }
  if (kind == 'f') {
    const char* const set = p + 2;
    if (*set != '[') luaL_error(L_, "missing '[' after '%%f' in pattern");
    p = item_end(set);
    return at_frontier(s, set, p) ? s : nullptr;
  }
  if (kind < '0' || kind > '9') return nullptr;
  s = match_earlier(s, kind);
  p += 2;
  return s;
}

// The item matches at `s`; the match is to reach at least to `least`.
const char* Matcher::longest_first(const char* s, const char* least, const char* p,
                                   const char* after) {
  const char* last = skip_items(s + 1, p, after);
  poll_.spend(last - s);
  for (; last >= least; --last)
    if (const char* end = run(last, after + 1)) return end;
  return nullptr;
}

const char* Matcher::shortest_first(const char* s, const char* p, const char* after) {
  for (;; ++s) {
    if (const char* end = run(s, after + 1)) return end;
    if (!matches_item(s, p, after)) return nullptr;
  }
}

// --- captures ------------------------------------------------------------------------------------

const char* Matcher::open_capture(const char* s, const char* p, ptrdiff_t kind) {
  if (captures_ == kMaxCaptures) luaL_error(L_, "too many captures");
  capture_[static_cast<size_t>(captures_++)] = {s, kind};
  const char* end = run(s, p);
  if (end == nullptr) --captures_;
  return end;
}

const char* Matcher::close_capture(const char* s, const char* p) {
  int index = captures_ - 1;
  while (index >= 0 && capture_[static_cast<size_t>(index)].size != kOpen) --index;
  if (index < 0) luaL_error(L_, "invalid pattern capture");
  Capture& capture = capture_[static_cast<size_t>(index)];
  capture.size = s - capture.start;
  const char* end = run(s, p);
  if (end == nullptr) capture.size = kOpen;
  return end;
}

bool Matcher::find_capture(int index, const char* from, const char* to, std::string_view* text) {
  if (index >= captures_) {
    if (index != 0) luaL_error(L_, "invalid capture index %%%d", index + 1);
    *text = {from, static_cast<size_t>(to - from)};
    return true;
  }
  const Capture& capture = capture_[static_cast<size_t>(index)];
  if (capture.size == kOpen) luaL_error(L_, "unfinished capture");
  if (capture.size == kPosition) {
    lua_pushinteger(L_, capture.start - begin_ + 1);
    return false;
  }
  *text = {capture.start, static_cast<size_t>(capture.size)};
  return true;
}

void Matcher::push_capture(int index, const char* from, const char* to) {
  std::string_view text;
  if (find_capture(index, from, to, &text)) lua_pushlstring(L_, text.data(), text.size());
}

int Matcher::push_captures(const char* from, const char* to) {
  const int count = captures_ == 0 && from != nullptr ? 1 : captures_;
  luaL_checkstack(L_, count, "too many captures");
  for (int i = 0; i < count; ++i) push_capture(i, from, to);
  return count;
}

// --- %b, %f, %1 ----------------------------------------------------------------------------------

const char* Matcher::match_balanced(const char* s, const char* p) {
  if (p >= pattern_end_ - 1) luaL_error(L_, "malformed pattern (missing arguments to '%%b')");
  if (*s != *p) return nullptr;
  const char opening = p[0], closing = p[1];
  const char* const start = s;
  int64_t nesting = 1;
  while (++s < end_) {
    if (*s == closing) {
      if (--nesting == 0) {
        poll_.spend(s - start);
        return s + 1;
      }
    } else if (*s == opening) {
      ++nesting;
    }
  }
  poll_.spend(s - start);
  return nullptr;
}

bool Matcher::at_frontier(const char* s, const char* set, const char* after) const {
  const unsigned char before = s == begin_ ? 0 : byte(s[-1]);
  return !in_set(before, set, after - 1) && in_set(byte(*s), set, after - 1);
}

// What an earlier capture has matched.
const char* Matcher::match_earlier(const char* s, char digit) {
  const int index = digit - '1';
  if (index < 0 || index >= captures_ || capture_[static_cast<size_t>(index)].size == kOpen)
    luaL_error(L_, "invalid capture index %%%d", index + 1);
  const Capture& capture = capture_[static_cast<size_t>(index)];
  const ptrdiff_t size = capture.size;  // a position matches nothing
  if (size == kPosition || end_ - s < size) return nullptr;
  poll_.spend(size);
  return std::memcmp(capture.start, s, static_cast<size_t>(size)) == 0 ? s + size : nullptr;
}

}  // namespace moonlet::library
