// tensor/core/platform/libraries.h: shared libraries that are opened while the program runs.
#pragma once

#include <string>
#include <vector>

namespace moonlet::platform {

// When the functions that a library wants are looked for, and who else may use its own.
enum class Binding { kNow, kNowForAll, kLazy };

// The library in that file, or by that name where the loader looks. Null with the reason.
void* open_library(const std::string& path, Binding binding, std::string& reason);
void close_library(void* library) noexcept;

// A function or variable of the library, also of those that it wants; null when there is none.
void* find_symbol(void* library, const char* name) noexcept;
// The same among all that the program shows to the libraries it loads.
void* find_global_symbol(const char* name) noexcept;

// The executable or library that an address lies in, and its file. A base of null where it is in
// none. The name lasts as long as the process.
struct LoadedObject {
  const void* base = nullptr;
  const char* file = "?";
};
LoadedObject object_of(const void* address);

// A loaded library again, or the program where no library of that file is loaded; null when
// neither can be had. To be closed.
void* reopen(const LoadedObject& object) noexcept;

// Lets libraries that are opened next use the symbols of the object that `address` lies in.
void share_symbols_of(const void* address) noexcept;

// The library whose absence a reason of open_library tells, empty when it tells something else.
std::string missing_library_in(const std::string& reason, const std::string& path);

// The files that match a pattern of a shell, sorted.
std::vector<std::string> files_matching(const std::string& pattern);

// An absolute path without links; the path itself where there is none.
std::string resolved_path(const std::string& path);

}  // namespace moonlet::platform
