// tensor/io/cache_folder.h: the folder of what is compiled at run time: kernels and extensions. It
// is MOONLET_CACHE of the environment, else moonlet under XDG_CACHE_HOME or ~/.cache; none where
// MOONLET_CACHE is "off", or the interpreter does not read the environment.
#pragma once

#include <string>

namespace moonlet::io {

// "" for none.
std::string cache_folder();

}  // namespace moonlet::io
