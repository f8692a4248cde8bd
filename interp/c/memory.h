// interp/c/memory.h: memory of others as tensors, and structs that grow.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "interp/c/calls.h"

namespace moonlet::c {

struct Memory {
  void* data = nullptr;
  Dims sizes, strides;  // in elements
  DType dtype = DType::Float32;
  Device device{};
  bool read_only = false;
};
// A tensor on it. `release` is called when the last user has gone, and not when this throws.
Tensor tensor_on(const Memory& memory, std::function<void()> release, const char* function);

// Calls a deleter of the host once it is armed. What it throws, where it is C++, is dropped.
template <class Argument>
std::function<void()> releasing(void (*deleter)(Argument*), Argument* argument,
                                std::shared_ptr<bool> armed) {
  return [deleter, argument, armed = std::move(armed)] {
    if (deleter == nullptr || !*armed) return;
    try {
      deleter(argument);
    } catch (...) {
    }
  };
}

// Writes as much of `from` as the caller's struct has room for; its field `size` stays.
template <class Struct>
void fill_struct(Struct& to, Struct& from, const char* function) {
  if (to.size < sizeof to.size || to.size > 4096)
    refuse(function, ": 'info': expected a size of ", sizeof(Struct), ", got ", to.size);
  from.size = to.size;
  std::memcpy(&to, &from, std::min(to.size, sizeof from));
}

}  // namespace moonlet::c
