// tensor/runtime/plugin_paths.h: where the plugins and the headers of this program may be: beside
// it, in its build folder, or installed.
#pragma once

#include <string>
#include <vector>

namespace moonlet {

// The paths to try for the plugin `file`, in their order. `folder` is the one of the build folder
// that it is made in. `variable` names the environment variable that says where it is instead,
// where this execution may read the environment.
std::vector<std::string> plugin_paths(const std::string& file, const std::string& folder,
                                      const char* variable);

// Gives the path of a plugin in the executable's bundle, empty where that has none of the name.
// Null but in executables with a bundle: what reads them is in no other program.
extern std::string (*bundled_plugin)(const std::string& file);

// The folder of the file that this code was loaded from: the executable or the library.
std::string own_folder();

// Where the public headers may be, in folders `moonlet`: those of the build folder, beside the
// program, or installed.
std::vector<std::string> header_folders();

}  // namespace moonlet
