// tests/cpp/messages.h: what an error said, for tests of errors.
#pragma once

#include <string>

#include "tensor/core/error.h"

namespace moonlet {

// The message of the exception that f() throws, or "" when it throws none.
template <class Exception = Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != text.npos;
}

}  // namespace moonlet
