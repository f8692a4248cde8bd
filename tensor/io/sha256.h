// tensor/io/sha256.h: SHA-256, by which bytes are known to be those that they were. Source: NIST,
// FIPS 180-4, 2015.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace moonlet::io {

using Digest = std::array<uint8_t, 32>;
Digest sha256(std::string_view bytes);
// Those of two texts, which takes little longer than one where they are of the same length.
std::array<Digest, 2> sha256_of_two(std::string_view a, std::string_view b);
// The same as sha256 without the processor's instructions for it, for tests of both.
Digest sha256_anywhere(std::string_view bytes);
std::string to_hex(const Digest& digest);

}  // namespace moonlet::io
