// interp/c/memory.h: memory of others as tensors, and structs that grow.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "interp/c/calls.h"

namespace moonlet::c {

// On this thread memory is given back that was refused: its owner is not told.
inline constinit thread_local bool failing = false;

// While a tensor is made of memory: if that fails, the memory is still the caller's.
class Unfinished {
 public:
  explicit Unfinished(const std::function<void()>& release)
      : flag_(release != nullptr ? &failing : nullptr),
        before_(flag_ != nullptr && std::exchange(*flag_, true)) {}
  ~Unfinished() {
    if (flag_ != nullptr) *flag_ = before_;
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  bool* const flag_;  // of this thread; null where nobody is told anyway
  const bool before_;
};

struct Memory {
  void* data = nullptr;
  Dims sizes;
  OptionalDims strides;  // in elements; not given: row-major
  DType dtype = DType::Float32;
  Device device{};
  bool read_only = false;
};

// Whom to tell when the last user of memory has gone. As small as std::function keeps in place.
template <class Argument>
struct Release {
  void (*deleter)(Argument*);
  Argument* argument;
  void operator()() const noexcept {
    if (failing) return;
    try {
      deleter(argument);
    } catch (...) {  // of a host in C++; nobody is there to be told
    }
  }
};
template <class Argument>
std::function<void()> releasing(void (*deleter)(Argument*), Argument* argument) {
  if (deleter == nullptr) return {};
  return Release<Argument>{deleter, argument};
}

// The handle of a tensor on it. `release` is called when the last user has gone, and not when this
// throws.
moonlet_tensor lend(const Memory& memory, std::function<void()> release, const char* function);
// The same as a tensor, for memory that nobody is told about.
Tensor tensor_on(const Memory& memory, std::function<void()> release, const char* function);

// Writes as much of `from` as the caller's struct has room for; its field `size` stays.
template <class Struct>
void fill_struct(Struct& to, Struct& from, const char* function) {
  if (to.size < sizeof to.size || to.size > 4096)
    refuse(function, ": 'info': expected a size of ", sizeof(Struct), ", got ", to.size);
  from.size = to.size;
  std::memcpy(&to, &from, std::min(to.size, sizeof from));
}

}  // namespace moonlet::c
