// tensor/core/platform/windows_names.cpp: functions that the C library of mingw-w64 lacks.
#include <vector>

#include "tensor/core/platform/windows_names.h"

// By the automaton of Knuth, Morris and Pratt.
void* memmem(const void* text, size_t count, const void* part, size_t size) {
  const char* const from = static_cast<const char*>(text);
  const char* const wanted = static_cast<const char*>(part);
  if (size == 0) return const_cast<char*>(from);
  // How long the beginning of `part` is that its first i + 1 bytes end with.
  std::vector<size_t> border(size, 0);
  for (size_t i = 1, same = 0; i < size; ++i) {
    while (same > 0 && wanted[i] != wanted[same]) same = border[same - 1];
    same += wanted[i] == wanted[same] ? 1 : 0;
    border[i] = same;
  }
  for (size_t i = 0, same = 0; i < count; ++i) {
    while (same > 0 && from[i] != wanted[same]) same = border[same - 1];
    same += from[i] == wanted[same] ? 1 : 0;
    if (same == size) return const_cast<char*>(from + i + 1 - size);
  }
  return nullptr;
}
