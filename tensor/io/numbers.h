// tensor/io/numbers.h: numbers in texts as Lua's and JSON's syntax have them, whatever the locale.
#pragma once

#include "tensor/core/platform/numeric_locale.h"

namespace moonlet::io {

// While alive, the C library, and so Lua, reads and writes this thread's numbers as in the locale
// "C": 1.5, where another locale may have 1,5.
using NumericLocaleC = platform::NumericLocale;

}  // namespace moonlet::io
