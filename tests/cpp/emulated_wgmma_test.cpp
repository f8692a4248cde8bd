// tests/cpp/emulated_wgmma_test.cpp: products of warpgroups in the CUDA emulation: right ones, in
// both layouts of the second factor, and what the ISA leaves undefined, which fails the launch.
#include "tests/cpp/catch2.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/emulated/include/wgmma.h"
#include "cuda/runtime/launch.h"

namespace {

namespace emulated = moonlet::emulated;

/// The upper half of a float.
struct Upper {
  std::uint16_t bits = 0;
  explicit operator float() const {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float out;
    std::memcpy(&out, &word, sizeof out);
    return out;
  }
};
std::uint16_t upper_bits(float v) {
  std::uint32_t word;
  std::memcpy(&word, &v, sizeof word);
  return static_cast<std::uint16_t>(word >> 16);
}

enum class Fault {
  kNone,
  kUnaligned,
  kUnswizzled,
  kNoCopy,
  kUnfencedCopy,
  kNoFence,
  kWritten,
  kReadEarly,
  kOther,
  kMissing,
  kUnwaited
};

float left(int row, int k) { return static_cast<float>((row * 5 + k * 3) % 11 - 5); }
float right(int k, int col) { return static_cast<float>((k * 7 + col * 2) % 13 - 6); }

/// Writes 16 bits into a tile of rows of 128 bytes, as a copy.
void put(unsigned char* tile, int row, int col, float v, bool copied) {
  const int at = row * 128 + ((col * 2) ^ row % 8 * 16);
  const std::uint16_t bits = upper_bits(v);
  std::memcpy(tile + at, &bits, 2);
  if (copied) emulated::begin_copy(tile + at / 16 * 16, 16);
}

/// The product of two such matrices (64, 16) and (16, 64), twice, by one warpgroup; the first one
/// is in memory, too, or only in registers.
void multiply(float* out, bool in_memory, bool transposed, Fault fault) {
  MOONLET_DYNAMIC_SHARED(unsigned char, memory);
  const unsigned address = emulated::shared_address(memory);
  unsigned char* tile = memory + (1024 - address % 1024) % 1024;
  // 64 elements of 16 bits a row, of rows 64 or 16; a thread brings a row or none.
  const int row = static_cast<int>(threadIdx.x), warp = row / 32, lane = row % 32;
  for (int col = 0; row < (transposed ? 16 : 64) && col < (transposed ? 64 : 16); ++col)
    put(tile, row, col, transposed ? right(row, col) : right(col, row), fault != Fault::kNoCopy);
  for (int k = 0; in_memory && row < 64 && k < 16; ++k)
    put(tile + 8192, row, k, left(row, k), true);
  if (fault != Fault::kUnfencedCopy) emulated::wait_copies();
  emulated::fence_proxy();
  __syncthreads();
  if (fault == Fault::kMissing && warp == 2) return;
  std::uint32_t a[4];
  for (int r = 0; r < 4; ++r) {
    const int of_row = warp * 16 + lane / 4 + r % 2 * 8, k = lane % 4 * 2 + r / 2 * 8;
    a[r] = upper_bits(left(of_row, k)) | static_cast<std::uint32_t>(upper_bits(left(of_row, k + 1)))
                                             << 16;
  }
  std::uint64_t start = emulated::shared_address(tile);
  if (fault == Fault::kUnaligned) start += 128;
  if (fault == Fault::kOther && warp == 3) start += 1024;
  const std::uint64_t b = start >> 4 | std::uint64_t{64} << 32 |
                          (fault == Fault::kUnswizzled ? 0 : std::uint64_t{1} << 62),
                      of_a = b + (8192 >> 4);
  float sums[8][4];
  if (fault != Fault::kNoFence) emulated::fence_products();
  for (const bool add : {false, true}) {
    if (in_memory)
      emulated::wgmma_64<Upper>(sums, of_a, b, add, transposed);
    else
      emulated::wgmma_64<Upper>(sums, a, b, add, transposed);
  }
  if (fault == Fault::kWritten) sums[3][1] = 0;
  const float early = sums[0][0];
  if (fault != Fault::kUnwaited) emulated::wait_products();
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i)
      out[(warp * 16 + lane / 4 + i / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + i % 2] =
          fault == Fault::kReadEarly ? early : sums[n][i];
}

/// What the launch says, and its sums.
std::string launched(bool in_memory, bool transposed, Fault fault, std::vector<float>& out) {
  float* data = nullptr;
  REQUIRE(cudaMalloc(&data, 64 * 64 * sizeof(float)) == cudaSuccess);
  MOONLET_LAUNCH(multiply, 1, 128, 18432, nullptr, data, in_memory, transposed, fault);
  const std::string text = emulated::failure_text();
  if (!text.empty()) {
    CHECK(cudaDeviceReset() == cudaSuccess);
    return text;
  }
  out.resize(64 * 64);
  REQUIRE(cudaMemcpy(out.data(), data, out.size() * sizeof(float), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  REQUIRE(cudaFree(data) == cudaSuccess);
  return text;
}

}  // namespace

TEST_CASE("products of warpgroups are those of matrices") {
  const bool in_memory = GENERATE(false, true), transposed = GENERATE(false, true);
  std::vector<float> got;
  REQUIRE(launched(in_memory, transposed, Fault::kNone, got).empty());
  for (int row = 0; row < 64; ++row)
    for (int col = 0; col < 64; ++col) {
      float want = 0;
      for (int k = 0; k < 16; ++k) want += 2 * left(row, k) * right(k, col);
      REQUIRE(got[static_cast<std::size_t>(row * 64 + col)] == want);
    }
}

TEST_CASE("sums of warpgroups are no numbers until they are waited for") {
  std::vector<float> got;
  REQUIRE(launched(false, false, Fault::kReadEarly, got).empty());
  for (const float v : got) REQUIRE(std::isnan(v));
}

TEST_CASE("what is undefined of products of warpgroups fails the launch") {
  struct Case {
    Fault fault;
    const char* says;
  };
  const Case c = GENERATE(Case{Fault::kUnaligned, "no multiple of 1024 bytes"},
                          Case{Fault::kUnswizzled, "swizzling is not that of 128 bytes"},
                          Case{Fault::kNoCopy, "no copy has come to"},
                          Case{Fault::kUnfencedCopy, "before cp.async.wait_all"},
                          Case{Fault::kNoFence, "without wgmma.fence"},
                          Case{Fault::kWritten, "wrote sums before wgmma.wait_group"},
                          Case{Fault::kOther, "not the same in all threads"},
                          Case{Fault::kMissing, "not all threads of a warpgroup take part"},
                          Case{Fault::kUnwaited, "ended before wgmma.wait_group"});
  std::vector<float> got;
  const std::string text = launched(false, true, c.fault, got);
  CHECK_THAT(text, ContainsSubstring(c.says));
  // What it had begun does not reach the next launch.
  CHECK(launched(false, true, Fault::kNone, got).empty());
}
