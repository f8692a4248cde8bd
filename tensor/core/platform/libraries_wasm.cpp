// tensor/core/platform/libraries_wasm.cpp: a module of WebAssembly is one piece: there are no
// shared libraries to open.
#include <unistd.h>

#include "tensor/core/platform/libraries.h"

namespace moonlet::platform {

void* open_library(const std::string& path, Binding, std::string& reason) {
  reason = path + ": WebAssembly opens no shared libraries";
  return nullptr;
}

void close_library(void*) noexcept {}
void* find_symbol(void*, const char*) noexcept { return nullptr; }
void* find_global_symbol(const char*) noexcept { return nullptr; }

LoadedObject object_of(const void*) { return {}; }
void* reopen(const LoadedObject&) noexcept { return nullptr; }
void share_symbols_of(const void*) noexcept {}

std::string missing_library_in(const std::string&, const std::string&) { return {}; }
std::vector<std::string> files_matching(const std::string&) { return {}; }
std::string resolved_path(const std::string& path) {
  char folder[4096];
  if (path.starts_with('/') || ::getcwd(folder, sizeof folder) == nullptr) return path;
  return path == "." ? folder : std::string(folder) + "/" + path;
}

}  // namespace moonlet::platform
