// tensor/core/error.h: the exception every layer throws, and the text pieces its messages are made
// of.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moonlet {

// What a caller did wrong, or what could not be done. The message starts with the op's name.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device or the host ran out of memory; the interpreter collects garbage and tries once more.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// Overloads of `append` turn one value into message text; other headers add theirs.
void append(std::string& out, std::string_view text);
void append(std::string& out, int64_t value);
void append(std::string& out, double value);
inline void append(std::string& out, const char* text) { append(out, std::string_view(text)); }
inline void append(std::string& out, const std::string& text) {
  append(out, std::string_view(text));
}
inline void append(std::string& out, int value) { append(out, static_cast<int64_t>(value)); }
inline void append(std::string& out, size_t value) { append(out, static_cast<int64_t>(value)); }

// The pieces joined into one string: text("size ", 3, " of ", dims).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// Throws Error with the pieces joined.
template <class... Parts>
[[noreturn, gnu::cold]] void fail(const Parts&... parts) {
  throw Error(text(parts...));
}

// Throws Error with the pieces joined unless `condition` holds.
template <class... Parts>
inline void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace moonlet
