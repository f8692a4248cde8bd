// interp/library/patterns.h: matching of Lua's patterns, as section 6.4.1 of its manual defines
// them, by backtracking that a request to stop ends.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lua.hpp"

#include "interp/library/poll.h"

namespace moonlet::library {

// One pattern over one subject, both of which end with a NUL that is not part of them, as Lua's
// strings do. Faults of the pattern are Lua errors, raised when matching comes to them.
class Matcher {
 public:
  // Anchors are the caller's to take off.
  Matcher(lua_State* L, std::string_view subject, std::string_view pattern)
      : L_(L),
        poll_(L),
        begin_(subject.data()),
        end_(subject.data() + subject.size()),
        pattern_(pattern.data()),
        pattern_end_(pattern.data() + pattern.size()) {}

  // Where a match that begins at `at` ends; null when there is none.
  const char* match(const char* at) {
    captures_ = 0;
    return run(at, pattern_);
  }

  // Of the last match, which reaches from `from` to `to`: pushes all captures, or the whole match
  // when there are none and `from` is not null; returns their number.
  int push_captures(const char* from, const char* to);
  // Capture `index`, from 0. The whole match stands for the first one when there are none.
  // find_capture pushes nothing but a position, when it returns false.
  bool find_capture(int index, const char* from, const char* to, std::string_view* text);
  void push_capture(int index, const char* from, const char* to);

 private:
  // Levels of backtracking; Lua's own bound.
  static constexpr int kMaxDepth = 200, kDepthStep = 25;
  static constexpr int kMaxCaptures = 32;
  static constexpr ptrdiff_t kOpen = -1, kPosition = -2;

  struct Capture {
    const char* start;
    ptrdiff_t size;  // or one of the above
  };

  // Matches the rest of the pattern, one level deeper.
  const char* run(const char* s, const char* p) {
    if (depth_ % kDepthStep == 0) [[unlikely]]
      check_depth();
    ++depth_;
    const char* end = match_rest(s, p);
    --depth_;
    return end;
  }
  void check_depth() const;
  const char* match_rest(const char* s, const char* p);
  const char* match_escape(const char*& p, const char* s);
  const char* longest_first(const char* s, const char* least, const char* p, const char* after);
  const char* shortest_first(const char* s, const char* p, const char* after);
  const char* open_capture(const char* s, const char* p, ptrdiff_t kind);
  const char* close_capture(const char* s, const char* p);
  const char* match_balanced(const char* s, const char* p);
  const char* match_earlier(const char* s, char digit);
  bool at_frontier(const char* s, const char* set, const char* after) const;

  const char* item_end(const char* p) const;
  bool matches_item(const char* s, const char* p, const char* after) const;
  const char* skip_items(const char* s, const char* p, const char* after) const;

  lua_State* L_;
  Poll poll_;
  const char* const begin_;
  const char* const end_;
  const char* const pattern_;
  const char* const pattern_end_;
  int depth_ = 0;
  int captures_ = 0;
  std::array<Capture, kMaxCaptures> capture_;
};

}  // namespace moonlet::library
