// tensor/core/platform/charconv_wasm.cpp: numbers of floating point written by the C library, whose
// locale is "C" there and which rounds rightly.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace std {
namespace {

template <class T>
T read(const char* text, char** end) {
  if constexpr (sizeof(T) == sizeof(float))
    return std::strtof(text, end);
  else
    return std::strtod(text, end);
}

to_chars_result hand_over(const char* text, int size, char* first, char* last) {
  if (size > last - first) return {last, errc::value_too_large};
  std::memcpy(first, text, static_cast<size_t>(size));
  return {first + size, errc()};
}

// The fewest digits that are read as the number, with or without an exponent, whichever is shorter.
template <class T>
to_chars_result shortest(char* first, char* last, T value) {
  const auto wide = static_cast<double>(value);
  if (!(value - value == 0)) {
    const char* name =
        value != value ? (std::signbit(value) ? "-nan" : "nan") : (value < 0 ? "-inf" : "inf");
    return hand_over(name, static_cast<int>(std::strlen(name)), first, last);
  }
  char text[40], plain[400];
  int size = 0, digits = 0;
  do {
    size = std::snprintf(text, sizeof text, "%.*e", digits++, wide);
  } while (read<T>(text, nullptr) != value && digits < std::numeric_limits<T>::max_digits10);
  const int exponent = std::atoi(std::strchr(text, 'e') + 1);
  const int behind = exponent < digits - 1 ? digits - 1 - exponent : 0;
  const int plain_size = std::snprintf(plain, sizeof plain, "%.*f", behind, wide);
  return plain_size <= size ? hand_over(plain, plain_size, first, last)
                            : hand_over(text, size, first, last);
}

}  // namespace

to_chars_result to_chars(char* first, char* last, float value) {
  return shortest(first, last, value);
}

to_chars_result to_chars(char* first, char* last, double value) {
  return shortest(first, last, value);
}

to_chars_result to_chars(char* first, char* last, double value, chars_format form, int digits) {
  char text[512];
  const char* format = form == chars_format::fixed        ? "%.*f"
                       : form == chars_format::scientific ? "%.*e"
                       : form == chars_format::general    ? "%.*g"
                                                          : "%.*a";
  const int size = std::snprintf(text, sizeof text, format, digits, value);
  if (size >= static_cast<int>(sizeof text)) return {last, errc::value_too_large};
  return hand_over(text, size, first, last);
}

}  // namespace std
