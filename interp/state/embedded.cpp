// interp/state/embedded.cpp: finds and unpacks the Lua files built into the executable.
#include "interp/state/embedded.h"

#include <zlib.h>

#include "tensor/core/error.h"

namespace moonlet {

const EmbeddedChunk* find_embedded(std::string_view name) {
  for (size_t i = 0; i < kEmbeddedChunkCount; ++i)
    if (name == kEmbeddedChunks[i].name) return &kEmbeddedChunks[i];
  return nullptr;
}

std::string_view code_of(const EmbeddedChunk& chunk, std::string& unpacked) {
  if (chunk.unpacked_size == 0) return {reinterpret_cast<const char*>(chunk.bytes), chunk.size};
  unpacked.assign(chunk.unpacked_size, '\0');
  z_stream stream{};
  stream.next_in = const_cast<unsigned char*>(chunk.bytes);  // zlib only reads it
  stream.avail_in = static_cast<uInt>(chunk.size);
  stream.next_out = reinterpret_cast<unsigned char*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(unpacked.size());
  constexpr int kGzip = 16 + MAX_WBITS;
  check(inflateInit2(&stream, kGzip) == Z_OK, chunk.name, ": out of memory to unpack it");
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  check(status == Z_STREAM_END, chunk.name, ": the executable is damaged");
  return unpacked;
}

}  // namespace moonlet
