// interp/state/bundled.h: the files of an interpreter's bundle (tensor/io/bundle.h), for what looks
// for modules and scripts, and for Lua's io.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lua.hpp"

#include "interp/embed/options.h"
#include "tensor/io/bundle.h"

namespace moonlet {

struct StateData;

// The files of a bundle, where there is one, before others.
std::unique_ptr<io::FileSystem> files_before(std::shared_ptr<const io::Bundle> bundle,
                                             std::unique_ptr<io::FileSystem> others);
// The files of the host; null: the system's.
std::unique_ptr<io::FileSystem> files_of_host(const HostFiles& host);

// The bundle of an interpreter; null where it has none.
std::shared_ptr<const io::Bundle> bundle_of(const StateData& data);

// The file of module "a.b": a/b.lua or a/b/init.lua. Null where there is none.
const io::BundleEntry* find_bundled_module(const StateData& data, std::string_view name);
// Whether the file is a script that this executable was written with: it may be a compiled chunk.
bool is_own_script(const StateData& data, std::string_view path);

// Has io.open and io.lines read the files of the bundle, where the state has one.
void open_bundled_files(lua_State* L);

}  // namespace moonlet
