// interp/modules/open_extension.h: the file of an extension: opened, so that its functions are this
// process's, and bound to this Moonlet and no other.
#pragma once

#include <string>

#include "lua.hpp"

namespace moonlet {

// What extensions of this Moonlet say of themselves.
const char* extension_abi() noexcept;

// Opens the library at `path`, an absolute one, and pushes its module: the same table where this
// interpreter has opened it before. Throws Error, which begins with `caller`, where it is no
// extension, of another Moonlet, or lacks something.
void open_extension(lua_State* L, const std::string& path, const std::string& caller);

}  // namespace moonlet
