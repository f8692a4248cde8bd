// tensor/core/platform/libraries_windows.cpp: shared libraries by LoadLibrary.
#include <windows.h>

#include <mutex>
#include <set>

#include "tensor/core/platform/libraries.h"
#include "tensor/core/platform/text_windows.h"

namespace moonlet::platform {
namespace {

std::string file_of(HMODULE library) {
  std::wstring path(MAX_PATH, L'\0');
  for (;;) {
    const DWORD size = GetModuleFileNameW(library, path.data(), static_cast<DWORD>(path.size()));
    if (size < path.size()) return narrow({path.data(), size});
    path.resize(2 * path.size());
  }
}

const char* kept(std::string name) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  return names.insert(std::move(name)).first->c_str();
}

HMODULE library_at(const void* address) noexcept {
  HMODULE library = nullptr;
  constexpr DWORD kFlags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  GetModuleHandleExW(kFlags, static_cast<const wchar_t*>(address), &library);
  return library;
}

}  // namespace

void* open_library(const std::string& path, Binding, std::string& reason) {
  // A library's own folder is searched for what it wants, where the path has one.
  const bool has_folder = path.find_first_of("/\\") != path.npos;
  const DWORD flags = has_folder ? LOAD_WITH_ALTERED_SEARCH_PATH : 0;
  std::wstring name = wide(path);
  for (wchar_t& c : name)
    if (c == L'/') c = L'\\';
  HMODULE library = LoadLibraryExW(name.c_str(), nullptr, flags);
  if (library == nullptr) reason = path + ": " + error_text(GetLastError());
  return library;
}

void close_library(void* library) noexcept { FreeLibrary(static_cast<HMODULE>(library)); }

void* find_symbol(void* library, const char* name) noexcept {
  if (library == nullptr) return nullptr;
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

// A library names the file of each function that it wants: none is looked for in the program.
void* find_global_symbol(const char*) noexcept { return nullptr; }

LoadedObject object_of(const void* address) {
  HMODULE library = address != nullptr ? library_at(address) : nullptr;
  if (library == nullptr) return {};
  return {library, kept(file_of(library))};
}

void* reopen(const LoadedObject& object) noexcept {
  HMODULE library = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     static_cast<const wchar_t*>(object.base), &library);
  return library;
}

void share_symbols_of(const void*) noexcept {}

// The system does not say which library is missing.
std::string missing_library_in(const std::string&, const std::string&) { return {}; }

std::vector<std::string> files_matching(const std::string&) { return {}; }

std::string resolved_path(const std::string& path) {
  wchar_t full[4096];
  const DWORD size = GetFullPathNameW(wide(path).c_str(), std::size(full), full, nullptr);
  if (size == 0 || size >= std::size(full)) return path;
  std::string out = narrow({full, size});
  for (char& c : out)
    if (c == '\\') c = '/';
  return out;
}

}  // namespace moonlet::platform
