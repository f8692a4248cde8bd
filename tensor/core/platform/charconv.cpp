// tensor/core/platform/charconv.cpp: numbers of floating point read by the C library, where the C++
// library cannot.
#include "tensor/core/platform/charconv.h"

#ifndef __cpp_lib_to_chars
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tensor/core/platform/numeric_locale.h"

namespace moonlet::platform {

// Unlike strtod neither spaces, nor a plus, nor hexadecimal digits.
std::from_chars_result double_from_chars(const char* first, const char* last, double& value) {
  const char* digits = first != last && *first == '-' ? first + 1 : first;
  const bool is_number = digits != last && std::strchr("0123456789.iInN", *digits) != nullptr;
  if (!is_number) return {first, std::errc::invalid_argument};
  const bool is_hex = last - digits > 1 && digits[0] == '0' && (digits[1] | 32) == 'x';
  const std::string text(first, is_hex ? digits + 1 : last);
  const NumericLocale locale;
  char* end = nullptr;
  const double read = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  const char* behind = first + (end - text.c_str());
  const bool too_large = std::isinf(read) && (*digits | 32) != 'i';
  const bool too_small = read == 0 && text.find_first_of("123456789") < text.find_first_of("eE");
  if (too_large || too_small) return {behind, std::errc::result_out_of_range};
  value = read;
  return {behind, std::errc()};
}

}  // namespace moonlet::platform
#endif
