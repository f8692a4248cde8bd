// tensor/io/sha256.cpp: SHA-256.
#include "tensor/io/sha256.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace moonlet::io {

namespace {

constexpr int kPrimes[] = {2,   3,   5,   7,   11,  13,  17,  19,  23,  29,  31,  37,  41,
                           43,  47,  53,  59,  61,  67,  71,  73,  79,  83,  89,  97,  101,
                           103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
                           173, 179, 181, 191, 193, 197, 199, 211, 223, 227, 229, 233, 239,
                           241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311};

// The first 32 bits behind the point of the n-th root, 2 or 3, of a number: the largest x such that
// x^n is at most p * 2^(32 n), less its whole part.
uint32_t fraction_of_root(int p, int n) {
  using Wide = unsigned __int128;
  uint64_t low = 0, high = uint64_t{1} << 37;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    Wide power = middle;
    for (int i = 1; i < n; ++i) power *= middle;
    (power <= Wide(p) << (32 * n) ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

struct Constants {
  uint32_t initial[8], rounds[64];
};
const Constants& constants() {
  static const Constants once = [] {
    Constants out;
    for (int i = 0; i < 8; ++i) out.initial[i] = fraction_of_root(kPrimes[i], 2);
    for (int i = 0; i < 64; ++i) out.rounds[i] = fraction_of_root(kPrimes[i], 3);
    return out;
  }();
  return once;
}

void add_block(uint32_t* state, const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  std::memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; ++i) {
    const uint32_t one = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants().rounds[i] + w[i];
    const uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                         ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    for (int k = 7; k > 0; --k) s[k] = s[k - 1];
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

Digest sha256(std::string_view bytes) {
  uint32_t state[8];
  std::memcpy(state, constants().initial, sizeof state);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t whole = bytes.size() / 64 * 64, rest = bytes.size() - whole;
  for (size_t i = 0; i < whole; i += 64) add_block(state, data + i);
  uint8_t last[128] = {};
  std::memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  const size_t end = rest < 56 ? 64 : 128;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (int i = 0; i < 8; ++i) last[end - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t i = 0; i < end; i += 64) add_block(state, last + i);
  Digest out;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
  return out;
}

std::string to_hex(const Digest& digest) {
  std::string out;
  for (const uint8_t each : digest) {
    out += "0123456789abcdef"[each >> 4];
    out += "0123456789abcdef"[each & 15];
  }
  return out;
}

}  // namespace moonlet::io
