// tensor/core/platform/libraries_posix.cpp: shared libraries by dlopen.
#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <string_view>

#include "tensor/core/platform/libraries.h"

namespace moonlet::platform {

void* open_library(const std::string& path, Binding binding, std::string& reason) {
  const int when = binding == Binding::kLazy ? RTLD_LAZY : RTLD_NOW;
  void* library =
      dlopen(path.c_str(), when | (binding == Binding::kNowForAll ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == nullptr) reason = dlerror();
  return library;
}

void close_library(void* library) noexcept { dlclose(library); }

void* find_symbol(void* library, const char* name) noexcept { return dlsym(library, name); }

void* find_global_symbol(const char* name) noexcept { return dlsym(RTLD_DEFAULT, name); }

LoadedObject object_of(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return {};
  return {info.dli_fbase, info.dli_fname != nullptr ? info.dli_fname : "?"};
}

void* reopen(const LoadedObject& object) noexcept {
  void* library = dlopen(object.file, RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr ? library : dlopen(nullptr, RTLD_LAZY);  // the program, by any name
}

void share_symbols_of(const void* address) noexcept {
  Dl_info info;
  if (dladdr(address, &info) != 0 && info.dli_fname != nullptr)
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

std::string missing_library_in(const std::string& reason, const std::string& path) {
  const size_t end = reason.find(": cannot open shared object file: No such file");
  const std::string name = reason.substr(0, end == reason.npos ? 0 : end);
  return name == path || name.find('/') != name.npos ? std::string() : name;
}

std::vector<std::string> files_matching(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  return out;
}

std::string resolved_path(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string out = real;
  std::free(real);
  return out;
}

}  // namespace moonlet::platform
