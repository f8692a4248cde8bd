// tensor/runtime/missing_library.h: opens plugins whose libraries are installed where the loader
// does not look: with the CUDA Toolkit, or with packages of Python.
#pragma once

#include <string>

namespace moonlet {

// dlopen(path, flags), after the libraries that it wants and the loader does not find. Null with
// the reason, which tells where a library was looked for.
void* open_with_libraries(const std::string& path, int flags, std::string& reason);

// A library by its file's name, from where the loader looks or else from those folders. It stays
// open. Null with the reason.
void* open_library(const std::string& name, std::string& reason);

}  // namespace moonlet
