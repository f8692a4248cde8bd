// tensor/core/error.cpp: how values are written in error messages.
#include "tensor/core/error.h"

#include <charconv>
#include <cmath>

namespace moonlet {

void append(std::string& out, std::string_view text) { out.append(text); }

void append(std::string& out, int64_t value) { out += std::to_string(value); }

void append(std::string& out, double value) {
  constexpr int kDigits = 14;                                          // as Lua shows numbers
  if (std::isnan(value)) return append(out, std::string_view("nan"));  // whatever its sign
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, kDigits);
  out.append(buffer, end.ptr);
}

}  // namespace moonlet
