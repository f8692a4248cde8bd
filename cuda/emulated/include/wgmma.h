// cuda/emulated/include/wgmma.h: the instructions of cuda/kernels/common/wgmma.cuh as functions of
// a warpgroup's fibers: descriptors are read as PTX's ISA says, a product is computed when it is
// waited for, until then its sums are no numbers, and what the ISA leaves undefined fails the
// launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grid.h"

namespace moonlet::emulated {

/// An address in the block's dynamic shared memory as descriptors count it.
std::uint32_t shared_address(const void* at);

/// Copies by cp.async into shared memory: that the calling thread has begun one, that its copies
/// have arrived, and fence.proxy.async, behind which products may read what has arrived.
void begin_copy(const void* to, std::size_t bytes);
void wait_copies();
void fence_proxy();
/// The 16 bytes at an address that products may read; fails the launch where they may not.
const unsigned char* shown_pack(std::uint32_t address);

/// A descriptor of 64 columns and a depth of 16 with the swizzling of 128 bytes.
struct TileDescriptor {
  std::uint32_t start, stride;
  bool swizzled;
  /// The 8 elements of column `outer` from depth `inner` on, or of depth `outer` from column
  /// `inner`.
  const unsigned char* pack(unsigned outer, unsigned inner) const {
    const std::uint32_t at = start + outer / 8 * stride + outer % 8 * 128 + inner * 2;
    return shown_pack(swizzled ? at ^ (at >> 3 & 0x70) : at);
  }
};

/// The calling thread's part of a product: sums (64, 64) += a (64, 16) b (16, 64). Unless `a` is in
/// memory, `held` has the four registers of each of the four threads that share its rows;
/// `transposed` says that b's depth is that of rows of memory.
struct ProductPart {
  float (*sums)[4];
  std::uint32_t held[4][4];
  TileDescriptor a, b;
  bool in_memory, transposed;
};

// Static here and below: a file whose kernels are watched has its own.
template <class T>
static void multiply_part(const ProductPart& p) {
  const auto value = [](unsigned bits) {
    T out;
    out.bits = static_cast<std::uint16_t>(bits);
    return static_cast<float>(out);
  };
  const auto element = [&](const unsigned char* pack, unsigned i) {
    return value(pack[2 * i] | static_cast<unsigned>(pack[2 * i + 1]) << 8);
  };
  float a[2][16], b[64][16];
  for (unsigned k = 0; k < 16; ++k)
    for (unsigned upper = 0; upper < 2; ++upper) {
      const unsigned row = context.thread % 128 / 32 * 16 + context.thread % 32 / 4 + 8 * upper;
      a[upper][k] = p.in_memory ? element(p.a.pack(row, k / 8 * 8), k % 8)
                                : value(p.held[k % 8 / 2][upper + k / 8 * 2] >> 16 * (k % 2));
    }
  const unsigned first = 2 * (context.thread % 4);
  for (unsigned n = 0; n < 8; ++n)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned col = 8 * n + first + i;
        b[col][k] = p.transposed ? element(p.b.pack(k, 8 * n), first + i)
                                 : element(p.b.pack(col, k / 8 * 8), k % 8);
      }
  for (unsigned n = 0; n < 8; ++n)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned k = 0; k < 16; ++k) p.sums[n][i] += a[i / 2][k] * b[8 * n + first + i % 2][k];
}

/// wgmma.fence: before the first product, and before one whose registers the thread has written.
void fence_products();

/// What the calling thread has of a product that it begins.
struct BegunProduct {
  float (*sums)[4];
  std::uint32_t held[4];
  std::uint64_t a, b;
  bool in_memory, add, transposed;
  void (*multiply)(const ProductPart&);
};
void begin_product(const BegunProduct& product);

/// wgmma.mma_async.sync.aligned.m64n64k16.f32 with 16-bit factors of type T, the first one in
/// registers or described; `transposed` is the instruction's imm-trans-b, `add` its scale-d.
template <class T>
static void wgmma_64(float (*sums)[4], const std::uint32_t (&a)[4], std::uint64_t b, bool add,
                     bool transposed) {
  begin_product({sums, {a[0], a[1], a[2], a[3]}, 0, b, false, add, transposed, multiply_part<T>});
}
template <class T>
static void wgmma_64(float (*sums)[4], std::uint64_t a, std::uint64_t b, bool add,
                     bool transposed) {
  begin_product({sums, {}, a, b, true, add, transposed, multiply_part<T>});
}

/// wgmma.commit_group and wgmma.wait_group 0.
void wait_products();

}  // namespace moonlet::emulated
