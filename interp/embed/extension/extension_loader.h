// interp/embed/extension/extension_loader.h: the loading of an extension: the test of its ABI, and
// its module.
#pragma once

#include <string>

#include "interp/embed/extension/extension.h"
struct lua_State;

namespace moonlet {

// Throws Error unless the file is an extension that was compiled against the headers of this
// Moonlet. It is read, and nothing of it runs.
void check_extension_file(const std::string& path);
// The same of what an opened library says; `path` is for messages.
void check_extension(const ExtensionInfo& info, const std::string& path);

// Loads an opened extension into the state that `L` belongs to and pushes its module; the same
// table when it was loaded there before. Throws what check_extension throws, and what the extension
// does.
void push_extension(lua_State* L, const ExtensionInfo& info, const std::string& path);

}  // namespace moonlet
