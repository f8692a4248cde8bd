// tensor/io/deflate.h: the raw deflate streams of zip archives (RFC 1951).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moonlet::io {

// Whether `stored` bytes of a deflate stream can stand for as many as `size`.
constexpr bool may_inflate_to(uint64_t stored, uint64_t size) {
  // A stream grows at most 1032 times: 258 bytes for two bits.
  return size / 1032 <= stored;
}

// Writes the `size` bytes of a stream to `out`. Throws Error where it is damaged, or holds more or
// fewer bytes.
void inflate(std::string_view stream, void* out, size_t size);

// The parts, one after the other, as a stream.
std::string deflate(const std::vector<std::string_view>& parts);

}  // namespace moonlet::io
