// interp/private_lua/formats.cpp: the functions by which the private Lua's objects write numbers.
#include "subprojects/packagefiles/lua/formats.h"

extern "C" {

[[gnu::format(printf, 3, 4)]] int moonlet_snprintf(char* text, size_t size, const char* format,
                                                   ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = format_text(text, size, format, arguments);
  va_end(arguments);
  return count;
}

// What Debian's compiler options make of snprintf and fprintf.
[[gnu::format(printf, 5, 6)]] int moonlet_snprintf_chk(char* text, size_t size, int, size_t,
                                                       const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = format_text(text, size, format, arguments);
  va_end(arguments);
  return count;
}

[[gnu::format(printf, 2, 3)]] int moonlet_fprintf(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = format_to_file(file, format, arguments);
  va_end(arguments);
  return count;
}

[[gnu::format(printf, 3, 4)]] int moonlet_fprintf_chk(FILE* file, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = format_to_file(file, format, arguments);
  va_end(arguments);
  return count;
}

}  // extern "C"
