// tensor/cpu/image/image_simd.cpp: weighted sums of elements at listed positions, one version per
// instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/image/image_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/image/image.h"

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
    const int64_t position = k * line.results + i;
    const auto element = hn::GatherIndex(d, x, hn::LoadU(di, line.at + position));
    sum = hn::MulAdd(hn::LoadU(d, line.weight + position), element, sum);
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

template <class D, class T, class I>
HWY_INLINE void add_products_at(D d, const I* at, const T* x, const T* factor, int64_t i, T* sums) {
  const hn::RebindToSigned<D> di;
  const auto element = hn::GatherIndex(d, x, hn::LoadU(di, at + i));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, factor + i), element, hn::LoadU(d, sums + i)), d, sums + i);
}

template <class T, class I>
void add_products_of(const I* at, const T* x, const T* factor, int64_t count, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) add_products_at(d, at, x, factor, i, sums);
  for (; i < count; ++i) add_products_at(hn::CappedTag<T, 1>(), at, x, factor, i, sums);
}

void add_products_f32(const int32_t* at, const float* x, const float* factor, int64_t count,
                      float* sums) {
  add_products_of(at, x, factor, count, sums);
}
void add_products_f64(const int64_t* at, const double* x, const double* factor, int64_t count,
                      double* sums) {
  add_products_of(at, x, factor, count, sums);
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
HWY_EXPORT(add_products_f32);
HWY_EXPORT(add_products_f64);

void add_products(const int32_t* at, const float* x, const float* factor, int64_t count,
                  float* sums) {
  HWY_DYNAMIC_DISPATCH(add_products_f32)(at, x, factor, count, sums);
}
void add_products(const int64_t* at, const double* x, const double* factor, int64_t count,
                  double* sums) {
  HWY_DYNAMIC_DISPATCH(add_products_f64)(at, x, factor, count, sums);
}

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
