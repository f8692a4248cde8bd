// interp/numbers.h: numbers in texts as Lua's and JSON's syntax have them, whatever the locale; and
// module moonlet.numbers.
#pragma once

#include <locale.h>

#include "lua.hpp"

namespace moonlet {

// While alive, the C library, and so Lua, reads and writes this thread's numbers as in the locale
// "C": 1.5, where another locale may have 1,5.
class NumericLocaleC {
 public:
  NumericLocaleC() {
    static const locale_t kC = ::newlocale(LC_ALL_MASK, "C", nullptr);
    if (kC != nullptr) before_ = ::uselocale(kC);
  }
  NumericLocaleC(const NumericLocaleC&) = delete;
  NumericLocaleC& operator=(const NumericLocaleC&) = delete;
  ~NumericLocaleC() {
    if (before_ != nullptr) ::uselocale(before_);
  }

 private:
  locale_t before_ = nullptr;
};

}  // namespace moonlet

// Module moonlet.numbers: format, tostring and tonumber as Lua's, without regard to the locale; and
// wrap(f), which gives a function that runs f so. The functions cannot yield.
int luaopen_moonlet_numbers(lua_State* L);
