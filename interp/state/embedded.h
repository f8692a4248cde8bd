// interp/state/embedded.h: the Lua sources built into the executable (see embed.lua), compressed:
// they are a tenth of it otherwise.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moonlet {

// One Lua file. `name` is its path inside stdlib/, such as "nn/init.lua"; the bytes are gzip's, of
// `size` bytes of text.
struct EmbeddedSource {
  const char* name;
  const unsigned char* bytes;
  size_t compressed_size, size;
};

extern const EmbeddedSource kEmbeddedSources[];
extern const size_t kEmbeddedSourceCount;

// The file of that name, or null.
const EmbeddedSource* find_embedded(std::string_view name);
// Its text.
std::string text_of(const EmbeddedSource& source);

}  // namespace moonlet
