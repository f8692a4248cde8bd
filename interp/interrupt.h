// interp/interrupt.h: Ctrl-C in the executable. Hosts that embed the interpreter never get here.
#pragma once

#include <signal.h>

#include "lua.hpp"

namespace moonlet {

// True from a Ctrl-C until the script was stopped. Long kernels may poll it and give up early.
bool interrupted() noexcept;

// While alive, Ctrl-C raises the Lua error "interrupted!" in whatever `L` runs, coroutines
// included. A second Ctrl-C within a second, when the first had no effect yet, ends the process
// with code 130. One at a time, on the main thread.
class InterruptScope {
 public:
  explicit InterruptScope(lua_State* L) noexcept;
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

 private:
  struct sigaction before_ {};
};

}  // namespace moonlet
