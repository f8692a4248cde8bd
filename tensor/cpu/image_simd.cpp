// tensor/cpu/image_simd.cpp: weighted sums of elements at listed places, one version per
// instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/image_simd.cpp"
//
#include "tensor/cpu/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/image.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class T, class I>
HWY_INLINE void weigh_at(D d, const LineTaps<T, I>& line, const T* HWY_RESTRICT x, int64_t i,
                         T* HWY_RESTRICT y) {
  const hn::RebindToSigned<D> di;
  auto sum = hn::Zero(d);
  for (int64_t k = 0; k < line.taps; ++k) {
    const int64_t place = k * line.results + i;
    const auto element = hn::GatherIndex(d, x, hn::LoadU(di, line.at + place));
    sum = hn::MulAdd(hn::LoadU(d, line.weight + place), element, sum);
  }
  hn::StoreU(sum, d, y + i);
}

template <class T, class I>
void weigh(const LineTaps<T, I>& line, const T* x, int64_t begin, int64_t end, T* y) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) weigh_at(d, line, x, i, y);
  for (; i < end; ++i) weigh_at(hn::CappedTag<T, 1>(), line, x, i, y);
}

void weigh_f32(const LineTaps<float, int32_t>& line, const float* x, int64_t begin, int64_t end,
               float* y) {
  weigh(line, x, begin, end, y);
}
void weigh_f64(const LineTaps<double, int64_t>& line, const double* x, int64_t begin, int64_t end,
               double* y) {
  weigh(line, x, begin, end, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(weigh_f32);
HWY_EXPORT(weigh_f64);

void weigh_line(const LineTaps<float, int32_t>& line, const float* x, int64_t begin, int64_t end,
                float* y) {
  HWY_DYNAMIC_DISPATCH(weigh_f32)(line, x, begin, end, y);
}
void weigh_line(const LineTaps<double, int64_t>& line, const double* x, int64_t begin, int64_t end,
                double* y) {
  HWY_DYNAMIC_DISPATCH(weigh_f64)(line, x, begin, end, y);
}

}  // namespace moonlet::cpu
#endif
