// tensor/core/platform/wasm_names.h: included before everything in WebAssembly, whose size_t and
// long have 32 bits and are no type that tensor/core/error.h knows.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace moonlet {

void append(std::string& out, int64_t value);

// Numbers in messages, whatever their type.
template <class T>
requires std::is_integral_v<T>
inline void append(std::string& out, T value) { append(out, static_cast<int64_t>(value)); }

}  // namespace moonlet
