// tensor/io/sha256.h: SHA-256, by which files of the cache are known. Source: NIST, FIPS 180-4,
// 2015.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace moonlet::io {

using Digest = std::array<uint8_t, 32>;
Digest sha256(std::string_view bytes);
std::string to_hex(const Digest& digest);

}  // namespace moonlet::io
