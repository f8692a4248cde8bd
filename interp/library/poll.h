// interp/library/poll.h: how library functions that run long without Lua code meet a request to
// stop.
#pragma once

#include <cstdint>

#include "lua.hpp"

#include "interp/state/interrupt.h"

namespace moonlet::library {

// Counts the work of one call of a library function, and raises the error of a request to stop
// within some 100,000 steps of it.
class Poll {
 public:
  explicit Poll(lua_State* L) : L_(L) {}

  void spend(int64_t steps) {
    left_ -= steps;
    if (left_ < 0) [[unlikely]]
      look();
  }

 private:
  static constexpr int64_t kSteps = 100'000;

  void look() {
    left_ = kSteps;
    raise_stop(L_);
  }

  lua_State* L_;
  int64_t left_ = kSteps;
};

// Give the open libraries `string` and `table` these functions in the place of Lua's. They do the
// same, but for meeting requests to stop.
void replace_string_functions(lua_State* L);
void replace_table_functions(lua_State* L);

}  // namespace moonlet::library
