// interp/state/embedded.h: the Lua files built into the executable, compiled (see embed.lua): to
// parse them takes longer than all else that a script needs to begin. In a build of chosen ops they
// are sources, which are smaller.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moonlet {

// One Lua file. `name` is its path inside stdlib/, such as "nn/init.lua".
struct EmbeddedChunk {
  const char* name;
  const unsigned char* bytes;
  size_t size;
  size_t unpacked_size;  // 0, or the bytes are gzip's of so many
};

extern const EmbeddedChunk kEmbeddedChunks[];
extern const size_t kEmbeddedChunkCount;

// The file of that name, or null.
const EmbeddedChunk* find_embedded(std::string_view name);
// Its code, a chunk or source; `unpacked` holds it where it is compressed.
std::string_view code_of(const EmbeddedChunk& chunk, std::string& unpacked);

}  // namespace moonlet
