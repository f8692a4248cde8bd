// tensor/core/platform/charconv.h: std::from_chars, with the numbers of floating point that LLVM's
// C++ library has not had before its version 20.
#pragma once

#include <charconv>
#include <type_traits>
#include <version>

namespace moonlet::platform {

#ifndef __cpp_lib_to_chars
std::from_chars_result double_from_chars(const char* first, const char* last, double& value);
#endif

template <class T>
std::from_chars_result from_chars(const char* first, const char* last, T& value) {
#ifndef __cpp_lib_to_chars
  if constexpr (std::is_same_v<T, double>)
    return double_from_chars(first, last, value);
  else
#endif
    return std::from_chars(first, last, value);
}

}  // namespace moonlet::platform
