// tensor/runtime/missing_library.h: opens plugins whose libraries are installed where the loader
// does not look: with a toolkit, or with packages of Python.
#pragma once

#include <string>

namespace moonlet {

// Opens the library, after those that it wants and the loader does not find. `toolkit` is
// the name of what brings them: its folder is where NAME_HOME or NAME_PATH says (in capitals), or
// /usr/local/NAME. Null with the reason, which tells where a library was looked for.
void* open_with_libraries(const std::string& path, const std::string& toolkit, std::string& reason);

// A library by its file's name, from where the loader looks or else from those folders. It stays
// open. Null with the reason. Not every library comes with a toolkit.
void* open_library(const std::string& name, std::string& reason, const std::string& toolkit = {});

}  // namespace moonlet
