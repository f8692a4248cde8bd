// tests/platforms/layer_checks.h: what the tests of the platform layer of each system say and
// count.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void expect(bool good, const char* what) {
  if (good) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}
