// tensor/core/platform/windows_names.h: included before everything on Windows: what C++, GNU's C
// library and that of POSIX have and that of mingw-w64 lacks.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

// Blocks of less than 16 KiB begin at multiples of 16 there, as malloc gives them: what is made
// by the library's own function cannot be freed by std::free. Larger blocks of tensors do not come
// from here (tensor/core/platform/memory.h), and no kernel relies on where one begins.
namespace std {
inline void* aligned_alloc(size_t, size_t bytes) noexcept { return malloc(bytes); }
}  // namespace std

// The first `size` bytes like those of `part`, or null. In time of the sum of both, as it is what a
// search turns to that has come upon text made to be slow.
void* memmem(const void* text, size_t count, const void* part, size_t size);

// The sign of the gamma function is below 0 between -1 and 0, -3 and -2, and so on.
inline double lgamma_r(double x, int* sign) noexcept {
  *sign = x < 0 && fmod(floor(x), 2) != 0 ? -1 : 1;
  return lgamma(x);
}
