// tests/cpp/limits.h: code that passes a limit of its interpreter.
#pragma once

#include <string>

#include "interp/embed/moonlet.h"
#include "tests/cpp/catch2.h"
#include "tests/cpp/messages.h"

namespace moonlet {

// Runs the code, which passes the limit; the interpreter is usable afterwards.
inline void check_limit(Interpreter& lua, Limit limit, const std::string& code) {
  INFO(code);
  try {
    lua.run_string(code, "s");
    FAIL("no limit was passed");
  } catch (const LimitExceeded& e) {
    CHECK(e.limit() == limit);
    CHECK(contains(e.what(), "limit of"));
  }
  CHECK(lua.run_string("local s = 0 for i = 1, 9 do s = s + i end return s")[0].integer() == 45);
}

}  // namespace moonlet
