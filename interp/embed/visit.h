// interp/embed/visit.h: a call of the host into a session, from its beginning to its end.
#pragma once

#include "interp/embed/session.h"
#include "interp/state/interrupt.h"

namespace moonlet::detail {

// A call into the session that is under way. The innermost member ends last: the outermost call
// closes what was abandoned, after it has left the interpreter.
class Visit {
  struct Count {
    Session& session;
    explicit Count(Session& s) : session(s) { ++s.depth; }
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    ~Count() {
      if (--session.depth == 0) session.end_run();
    }
  };

 public:
  explicit Visit(Session& session)
      : count_(session),
        entry_(session.data),
        // A host function that calls back runs in the coroutine that called it.
        L(session.data.running),
        top(lua_gettop(L)) {
    if (session.depth == 1) session.begin_run(entry_.thread_id());
    // A request may have come before the interpreter was entered.
    if (session.data.stop.requested()) [[unlikely]]
      stop_soon(session.data);
  }
  ~Visit() { lua_settop(L, top); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  void reserve(size_t count) const {
    constexpr size_t kMax = 1'000'000;  // Lua's own bound
    // Lua gives each C function that much.
    if (static_cast<size_t>(top) + count <= LUA_MINSTACK) return;
    if (count > kMax || lua_checkstack(L, static_cast<int>(count)) == 0)
      throw Error("too many values, or nested calls between host and script");
  }

 private:
  Count count_;
  EntryScope entry_;

 public:
  lua_State* const L;
  const int top;
};

}  // namespace moonlet::detail
