// tensor/io/numbers.h: numbers in texts as Lua's and JSON's syntax have them, whatever the locale.
#pragma once

#include <locale.h>

namespace moonlet::io {

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

}  // namespace moonlet::io
