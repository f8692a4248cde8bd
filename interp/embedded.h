// interp/embedded.h: the index of the Lua sources built into the executable (see embed.lua).
#pragma once

#include <cstddef>

namespace moonlet {

// One Lua file. `name` is its path inside stdlib/, such as "nn/init.lua"; the text comes in parts
// because compilers limit the length of a string literal.
struct EmbeddedSource {
  const char* name;
  const char* const* parts;
  const size_t* sizes;
  size_t count;
};

extern const EmbeddedSource kEmbeddedSources[];
extern const size_t kEmbeddedSourceCount;

}  // namespace moonlet
