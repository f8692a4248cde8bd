// tensor/io/sha256.cpp: SHA-256.
#include "tensor/io/sha256.h"

#include <bit>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

using AddBlocks = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

void add_block(uint32_t* state, const uint8_t* block, const uint32_t* rounds) {
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
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[i] + w[i];
    const uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                         ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    for (int k = 7; k > 0; --k) s[k] = s[k - 1];
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

void add_blocks_anywhere(uint32_t* state, const uint8_t* blocks, size_t count) {
  const uint32_t* const rounds = constants().rounds;
  for (size_t i = 0; i < count; ++i) add_block(state, blocks + 64 * i, rounds);
}

#if defined(__x86_64__)
// The processor's own instructions, which do two rounds at once: they keep the state as the words
// f, e, b, a and h, g, d, c. Each waits for the one before; those of another message fill the gaps.
template <int kLanes>
[[gnu::target("sha,sse4.1,ssse3")]] void add_blocks_of(uint32_t (*states)[8],
                                                       const uint8_t* const* data, size_t count) {
  const uint32_t* const rounds = constants().rounds;
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[kLanes], cdgh[kLanes], abef_before[kLanes], cdgh_before[kLanes], w[kLanes][4];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* state = reinterpret_cast<const int*>(states[lane]);
    abef[lane] = _mm_set_epi32(state[0], state[1], state[4], state[5]);
    cdgh[lane] = _mm_set_epi32(state[2], state[3], state[6], state[7]);
  }
  for (size_t block = 0; block < count; ++block) {
#pragma GCC unroll 2
    for (int lane = 0; lane < kLanes; ++lane) {
      abef_before[lane] = abef[lane];
      cdgh_before[lane] = cdgh[lane];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const auto* at = reinterpret_cast<const __m128i*>(data[lane] + 64 * block + 16 * i);
        w[lane][i] = _mm_shuffle_epi8(_mm_loadu_si128(at), big_endian);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i constant = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rounds + 4 * i));
#pragma GCC unroll 2
      for (int lane = 0; lane < kLanes; ++lane) {
        const __m128i now = w[lane][i % 4];
        const __m128i sum = _mm_add_epi32(now, constant);
        cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], sum);
        abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(sum, 0x0e));
        if (i >= 12) continue;
        // The words of four rounds on are made of those of the last sixteen.
        const __m128i next = w[lane][(i + 1) % 4], third = w[lane][(i + 2) % 4],
                      last = w[lane][(i + 3) % 4];
        const __m128i with_seven =
            _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
        w[lane][i % 4] = _mm_sha256msg2_epu32(with_seven, last);
      }
    }
#pragma GCC unroll 2
    for (int lane = 0; lane < kLanes; ++lane) {
      abef[lane] = _mm_add_epi32(abef[lane], abef_before[lane]);
      cdgh[lane] = _mm_add_epi32(cdgh[lane], cdgh_before[lane]);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    alignas(16) uint32_t first[4], second[4];
    _mm_store_si128(reinterpret_cast<__m128i*>(first), abef[lane]);
    _mm_store_si128(reinterpret_cast<__m128i*>(second), cdgh[lane]);
    const uint32_t state[8] = {first[3], first[2], second[3], second[2],
                               first[1], first[0], second[1], second[0]};
    std::memcpy(states[lane], state, sizeof state);
  }
}

void add_blocks_by_instructions(uint32_t* state, const uint8_t* blocks, size_t count) {
  add_blocks_of<1>(reinterpret_cast<uint32_t(*)[8]>(state), &blocks, count);
}

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSha = 1u << 29, kSsse3 = 1u << 9, kSse41 = 1u << 19;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & kSha) == 0) return false;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kSsse3) != 0 && (c & kSse41) != 0;
}

#else
bool has_instructions() { return false; }
void add_blocks_by_instructions(uint32_t*, const uint8_t*, size_t) {}
#endif

bool by_instructions() {
  static const bool once = has_instructions();
  return once;
}

// The rest of a message of so many bytes, and what says how long it was.
Digest finish(uint32_t* state, std::string_view rest, uint64_t bytes, AddBlocks add_blocks) {
  uint8_t last[128] = {};
  if (!rest.empty()) std::memcpy(last, rest.data(), rest.size());
  last[rest.size()] = 0x80;
  const size_t end = rest.size() < 56 ? 64 : 128;
  const uint64_t bits = bytes * 8;
  for (int i = 0; i < 8; ++i) last[end - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  add_blocks(state, last, end / 64);
  Digest out;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
  return out;
}

Digest digest_of(std::string_view bytes, AddBlocks add_blocks) {
  uint32_t state[8];
  std::memcpy(state, constants().initial, sizeof state);
  const size_t whole = bytes.size() / 64 * 64;
  add_blocks(state, reinterpret_cast<const uint8_t*>(bytes.data()), whole / 64);
  return finish(state, bytes.substr(whole), bytes.size(), add_blocks);
}

}  // namespace

Digest sha256(std::string_view bytes) {
  return digest_of(bytes, by_instructions() ? add_blocks_by_instructions : add_blocks_anywhere);
}

Digest sha256_anywhere(std::string_view bytes) { return digest_of(bytes, add_blocks_anywhere); }

std::array<Digest, 2> sha256_of_two(std::string_view a, std::string_view b) {
#if defined(__x86_64__)
  if (a.size() == b.size() && by_instructions()) {
    uint32_t states[2][8];
    for (auto& state : states) std::memcpy(state, constants().initial, sizeof state);
    const uint8_t* const data[] = {reinterpret_cast<const uint8_t*>(a.data()),
                                   reinterpret_cast<const uint8_t*>(b.data())};
    const size_t whole = a.size() / 64 * 64;
    add_blocks_of<2>(states, data, whole / 64);
    return {finish(states[0], a.substr(whole), a.size(), add_blocks_by_instructions),
            finish(states[1], b.substr(whole), b.size(), add_blocks_by_instructions)};
  }
#endif
  return {sha256(a), sha256(b)};
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
