// tensor/io/late_library.h: a packaged library that is loaded at its first use, so that programs
// that never use it need not load it, nor have it.
#pragma once

#include <string>

#include "tensor/core/platform/libraries.h"
#include "tensor/runtime/missing_library.h"

namespace moonlet::io {

// Open for good. `missing` says why something of it is not there; empty when all is.
class LateLibrary {
 public:
  // `file` is what the loader finds, with the version of its interface.
  LateLibrary(std::string title, const std::string& file) : title_(std::move(title)) {
    std::string reason;
    handle_ = open_library(file, reason);
    if (handle_ == nullptr) missing = "the library " + title_ + " cannot be loaded: " + reason;
  }
  // A function, also of the libraries that this one wants.
  template <class F>
  void find(const char* name, F*& out) {
    if (handle_ == nullptr) return;
    out = reinterpret_cast<F*>(platform::find_symbol(handle_, name));
    if (out == nullptr) missing = "the library " + title_ + " has no function " + name;
  }

  std::string missing;

 private:
  std::string title_;
  void* handle_;
};

}  // namespace moonlet::io
