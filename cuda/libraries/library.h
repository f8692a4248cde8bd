// cuda/libraries/library.h: libraries that need not be there, opened when they are first wanted.
#pragma once

#include <string_view>

#include "tensor/core/platform/libraries.h"

namespace moonlet::cuda {

// Whether MOONLET_CUDA_WITHOUT in the environment, names between commas, has `what`.
bool is_left_out(std::string_view what);

// The library in the file of that name, for the rest of the process: where the loader looks, and
// where toolkits and Python's packages put it. Null where there is none, or `what` is left out.
void* open_library(const char* what, const char* file);

// Looks the function of that name up; false where the library has none.
template <class Function>
bool find_in(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(platform::find_symbol(library, name));
  return out != nullptr;
}

}  // namespace moonlet::cuda
