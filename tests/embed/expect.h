// tests/embed/expect.h: what the host programs check with; `failures` is to be main's result.
#pragma once

#include <moonlet/tensor/error.h>
#include <cstdio>
#include <string>

inline int failures = 0;

inline void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

// The message of the Error that f throws, or "".
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const moonlet::Error& e) {
    return e.what();
  }
  return "";
}

template <class F>
void expect_error(F&& f, const char* part) {
  const std::string message = message_of(f);
  expect(message.find(part) != std::string::npos, message.empty() ? part : message);
}
