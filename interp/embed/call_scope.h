// interp/embed/call_scope.h: around each C function of Moonlet in a Lua state that a host made:
// such a state is entered call by call, since nobody says when its scripts run.
#pragma once

#include <optional>

#include "lua.hpp"

#include "interp/state/entry.h"

namespace moonlet {

// Whether this library opens its module in Lua states that it did not make. Set before the first
// call and constant from then on.
inline constinit bool host_states = false;

// Nothing but a test in states of Moonlet's own, and inside another call of the same state.
class CallScope {
 public:
  explicit CallScope(lua_State* L) {
    if (host_states) [[unlikely]]
      enter(L);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  struct Entered {
    Entered(StateData& data, lua_State* L) : entry(data), running(L, L) {}
    EntryScope entry;
    RunningScope running;
  };
  void enter(lua_State* L);

  std::optional<Entered> entered_;
};

}  // namespace moonlet
