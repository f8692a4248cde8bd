// interp/state/embedded.cpp: finds and unpacks the Lua sources built into the executable.
#include "interp/state/embedded.h"

#include <zlib.h>

#include "tensor/core/error.h"

namespace moonlet {

const EmbeddedSource* find_embedded(std::string_view name) {
  for (size_t i = 0; i < kEmbeddedSourceCount; ++i)
    if (name == kEmbeddedSources[i].name) return &kEmbeddedSources[i];
  return nullptr;
}

std::string text_of(const EmbeddedSource& source) {
  std::string text(source.size, '\0');
  z_stream stream{};
  stream.next_in = const_cast<unsigned char*>(source.bytes);  // zlib only reads it
  stream.avail_in = static_cast<uInt>(source.compressed_size);
  stream.next_out = reinterpret_cast<unsigned char*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  constexpr int kGzip = 16 + MAX_WBITS;
  check(inflateInit2(&stream, kGzip) == Z_OK, source.name, ": out of memory to unpack it");
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  check(status == Z_STREAM_END, source.name, ": the executable is damaged");
  return text;
}

}  // namespace moonlet
