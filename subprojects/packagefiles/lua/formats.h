// formats.h: what Lua writes numbers by. As the C library's functions, but nan has no sign: that of
// 0/0 is set on x86 and not on ARM, and "-nan" says nothing.
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Whether the format is of one floating number and the argument is nan. Lua gives one conversion in
// a call, without '*'.
static inline bool formats_nan(const char* format, va_list arguments) {
  const size_t size = strlen(format);
  if (size < 2 || format[0] != '%' || strchr("aAeEfFgG", format[size - 1]) == nullptr) return false;
  va_list copy;
  va_copy(copy, arguments);
  const double value = va_arg(copy, double);
  va_end(copy);
  return isnan(value) != 0;
}

static inline int format_text(char* text, size_t size, const char* format, va_list arguments) {
  if (formats_nan(format, arguments)) return snprintf(text, size, format, fabs(NAN));
  return vsnprintf(text, size, format, arguments);
}

static inline int format_to_file(FILE* file, const char* format, va_list arguments) {
  if (formats_nan(format, arguments)) return fprintf(file, format, fabs(NAN));
  return vfprintf(file, format, arguments);
}
