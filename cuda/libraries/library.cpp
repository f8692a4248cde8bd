// cuda/libraries/library.cpp: the opening of libraries that need not be there.
#include "cuda/libraries/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "tensor/runtime/missing_library.h"

namespace moonlet::cuda {

bool is_left_out(std::string_view what) {
  const char* value = std::getenv("MOONLET_CUDA_WITHOUT");
  std::string_view names = value ? value : "";
  while (!names.empty()) {
    const size_t comma = names.find(',');
    if (names.substr(0, comma) == what) return true;
    names = comma == names.npos ? std::string_view() : names.substr(comma + 1);
  }
  return false;
}

void* open_library(const char* what, const char* file) {
  if (is_left_out(what)) return nullptr;
  // Beside the plugin, which has its own list of folders, first.
  if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  std::string reason;
  return moonlet::open_library(file, reason, "cuda");
}

}  // namespace moonlet::cuda
