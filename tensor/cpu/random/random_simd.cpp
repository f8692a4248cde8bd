// tensor/cpu/random/random_simd.cpp: Philox 4x32-10 with a block in each 64-bit lane, one version
// per instruction set, chosen when the program runs. All give the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random/random_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include <algorithm>
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/random/random.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::bits {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::CappedTag<uint64_t, kBatch>;
using V64 = hn::Vec<D64>;

// The product of the lower halves of each lane; what the upper halves hold does not matter.
HWY_INLINE V64 multiply(V64 a, V64 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D64(), (hn::GetLane(a) & 0xFFFFFFFFu) * (hn::GetLane(b) & 0xFFFFFFFFu));
#else
  const hn::RepartitionToNarrow<D64> d;
  return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, b));
#endif
}

// Stores the lower half of each lane.
HWY_INLINE void store(V64 v, uint32_t* to) {
  HWY_ALIGN uint64_t lanes[hn::MaxLanes(D64())];
  hn::Store(v, D64(), lanes);
  for (size_t i = 0; i < hn::Lanes(D64()); ++i) to[i] = static_cast<uint32_t>(lanes[i]);
}

// Calls f(i, c0, c1, c2, c3) with the numbers of the blocks from first + i on, of a whole vector,
// in the lower halves of the lanes.
template <class F>
HWY_INLINE void each_vector_of_blocks(const Philox& rng, uint64_t first, F&& f) {
  const D64 d;
  const V64 m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  const V64 steps = hn::Iota(d, 0);
  for (size_t i = 0; i < kBatch; i += hn::Lanes(d)) {
    V64 c0 = hn::Add(steps, hn::Set(d, rng.offset + first + i));
    V64 c1 = hn::ShiftRight<32>(c0);
    V64 c2 = hn::Zero(d), c3 = hn::Zero(d);
    uint32_t k0 = static_cast<uint32_t>(rng.seed), k1 = static_cast<uint32_t>(rng.seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const V64 p0 = multiply(m0, c0), p1 = multiply(m1, c2);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c3 = p0;
    }
    f(i, c0, c1, c2, c3);
  }
}

void draw_blocks(const Philox& rng, uint64_t first, Batch& out) {
  each_vector_of_blocks(rng, first, [&](size_t i, V64 c0, V64 c1, V64 c2, V64 c3) HWY_ATTR {
    store(c0, out.v[0] + i);
    store(c1, out.v[1] + i);
    store(c2, out.v[2] + i);
    store(c3, out.v[3] + i);
  });
}

// The bits of floats as they lie in memory, as vectors of what masks are of.
HWY_INLINE auto bits_beside(hn::CappedTag<float, 4 * kBatch>, const uint32_t* from) {
  return hn::Load(hn::CappedTag<uint32_t, 4 * kBatch>(), from);
}
HWY_INLINE auto bits_beside(hn::CappedTag<double, 4 * kBatch> d, const uint32_t* from) {
  const hn::RebindToUnsigned<decltype(d)> wide;
  return hn::PromoteTo(wide, hn::Load(hn::Rebind<uint32_t, decltype(wide)>(), from));
}

template <class T>
HWY_INLINE void make_masks(const Philox& rng, uint64_t first, const draws::Under& dropped, T kept,
                           T* out) {
  HWY_ALIGN uint64_t pairs[2 * kBatch];
  each_vector_of_blocks(rng, first, [&](size_t i, V64 c0, V64 c1, V64 c2, V64 c3) HWY_ATTR {
    const D64 d;
    const V64 low = hn::Set(d, 0xFFFFFFFFu);
    hn::StoreInterleaved2(hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1)),
                          hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3)), d, pairs + 2 * i);
  });
  const hn::CappedTag<T, 4 * kBatch> d;
  const hn::RebindToUnsigned<decltype(d)> of_bits;
  const auto last = hn::Set(of_bits, dropped.last);
  const auto stays = hn::Set(d, kept);
  const auto* bits = reinterpret_cast<const uint32_t*>(pairs);
  for (size_t i = 0; i < 4 * kBatch; i += hn::Lanes(d)) {
    const auto above = hn::Gt(bits_beside(d, bits + i), last);
    hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, above), stays), d, out + i);
  }
}
void masks_f32(const Philox& rng, uint64_t first, const draws::Under& dropped, float kept,
               float* out) {
  make_masks(rng, first, dropped, kept, out);
}
void masks_f64(const Philox& rng, uint64_t first, const draws::Under& dropped, double kept,
               double* out) {
  make_masks(rng, first, dropped, kept, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu::bits
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu::bits {
HWY_EXPORT(draw_blocks);
HWY_EXPORT(masks_f32);
HWY_EXPORT(masks_f64);
void draw(const Philox& rng, uint64_t first, Batch& out) {
  HWY_DYNAMIC_DISPATCH(draw_blocks)(rng, first, out);
}
void draw_masks(const Philox& rng, uint64_t first, const draws::Under& dropped, float kept,
                float* out) {
  if (!dropped.any) return static_cast<void>(std::fill_n(out, kMasks, kept));
  HWY_DYNAMIC_DISPATCH(masks_f32)(rng, first, dropped, kept, out);
}
void draw_masks(const Philox& rng, uint64_t first, const draws::Under& dropped, double kept,
                double* out) {
  if (!dropped.any) return static_cast<void>(std::fill_n(out, kMasks, kept));
  HWY_DYNAMIC_DISPATCH(masks_f64)(rng, first, dropped, kept, out);
}
}  // namespace moonlet::cpu::bits
#endif
