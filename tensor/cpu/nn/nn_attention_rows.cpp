// tensor/cpu/nn/nn_attention_rows.cpp: what attention does to the rows of a block of scores, by
// whole vectors: the softmax of one block after another, its gradient, masks.
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/nn/nn_attention_rows.cpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/nn/nn_attention_rows.h"
#include "tensor/cpu/random/random.h"
#include "tensor/cpu/simd/each_vector-inl.h"
#include "tensor/cpu/simd/max_of_lanes-inl.h"
#include "tensor/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::kScoreLanes;
using cpu::ScoreBlock;
using cpu::ScoreDropout;

// Rows of scores have no rest beside these vectors.
template <class T>
using ScoreTag = hn::CappedTag<T, kScoreLanes>;

inline int64_t whole_vectors(int64_t n) {
  return (n + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
}

template <class T>
constexpr T kHidden = -std::numeric_limits<T>::infinity();

template <class T>
void apply_mask(const ScoreBlock& b, int64_t row, T* s, int64_t n) {
  if (b.mask_is_bool) {
    const bool* m = static_cast<const bool*>(b.mask) + row * b.mask_row;
    for (int64_t i = 0; i < n; ++i) s[i] = m[i * b.mask_col] ? s[i] : kHidden<T>;
  } else {
    const T* m = static_cast<const T*>(b.mask) + row * b.mask_row;
    if (b.mask_col == 1)
      for (int64_t i = 0; i < n; ++i) s[i] += m[i];
    else
      for (int64_t i = 0; i < n; ++i) s[i] += m[i * b.mask_col];
  }
}

// A row's scores with the mask, minus infinity where its query sees nothing, up to a whole vector;
// returns where that is.
template <class T>
int64_t masked_row(const ScoreBlock& b, int64_t row, T* s) {
  const int64_t seen = std::clamp<int64_t>(b.causal ? b.seen + row : b.seen, 0, b.keys);
  if (b.mask != nullptr) apply_mask(b, row, s, seen);
  const int64_t end = whole_vectors(seen);
  std::fill(s + seen, s + end, kHidden<T>);
  return end;
}

// e^x, 0 where that is no normal number, NaN of NaN, which a maximum passes over but for the
// instruction of x86-64, which gives its second operand.
template <class T, class V>
HWY_INLINE auto weight_of(V x) {
#if !HWY_ARCH_X86 || HWY_TARGET == HWY_SCALAR
  return select(vec<T>(x) != vec<T>(x), vec<T>(x), exp_or_0(vec<T>(x))).v;
#else
  return exp_or_0(vec<T>(x)).v;
#endif
}

// Draws what dropout multiplies the first `end` weights of a row by.
template <class T>
void draw_row(const ScoreDropout& dropout, int64_t row, int64_t end, T* masks) {
  const uint64_t first = dropout.first + static_cast<uint64_t>(row) * dropout.row_blocks;
  for (int64_t i = 0; i < end; i += cpu::bits::kMasks)
    cpu::bits::draw_masks(dropout.rng, first + static_cast<uint64_t>(i / 4), dropout.dropped,
                          static_cast<T>(dropout.kept), masks + i);
}

// The masks of a row of a block.
template <class T>
using Masks = T[thresholds::nn::kKeys];
static_assert(thresholds::nn::kKeys % cpu::bits::kMasks == 0);

template <class T>
void weigh_row(const ScoreBlock& b, int64_t row, T& top, T& sum, T& factor) {
  const ScoreTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T* s = static_cast<T*>(b.scores) + row * b.stride;
  const int64_t end = masked_row(b, row, s);
  auto most = hn::Set(d, top);
  for (int64_t i = 0; i < end; i += lanes) most = hn::Max(most, hn::LoadU(d, s + i));
  const T now = hn::GetLane(max_of_lanes(d, most));
  // The difference of two infinities is not a number.
  const auto shift = hn::Set(d, now == kHidden<T> ? T(0) : now);
  auto total = hn::Zero(d);
  for (int64_t i = 0; i < end; i += lanes) {
    // No score is above the shift.
    const auto e = weight_of<T>(hn::Sub(hn::LoadU(d, s + i), shift));
    hn::StoreU(e, d, s + i);
    total = hn::Add(total, e);
  }
  if (b.dropout) {
    alignas(64) Masks<T> masks;
    draw_row(*b.dropout, row, end, masks);
    for (int64_t i = 0; i < end; i += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, s + i), hn::Load(d, masks + i)), d, s + i);
  }
  std::fill(s + std::min(end, b.keys), s + b.keys, T(0));
  factor = top == now ? T(1) : top == kHidden<T> ? T(0) : std::exp(top - now);
  sum = sum * factor + hn::GetLane(hn::SumOfLanes(d, total));
  top = now;
}

template <class T>
void weigh(const ScoreBlock& b, T* top, T* sum, T* factor) {
  for (int64_t row = 0; row < b.rows; ++row) weigh_row(b, row, top[row], sum[row], factor[row]);
}

template <class T>
void gradients(const ScoreBlock& b, T* grads, const T* logsumexp, const T* dots) {
  const ScoreTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) Masks<T> masks;
  for (int64_t row = 0; row < b.rows; ++row) {
    T* s = static_cast<T*>(b.scores) + row * b.stride;
    T* g = grads + row * b.stride;
    const int64_t end = masked_row(b, row, s);
    const auto shift = hn::Set(d, logsumexp[row]), dot = hn::Set(d, dots[row]);
    if (b.dropout) draw_row(*b.dropout, row, end, masks);
    for (int64_t i = 0; i < end; i += lanes) {
      const auto weight = weight_of<T>(hn::Sub(hn::LoadU(d, s + i), shift));
      auto used = weight, by_weight = hn::LoadU(d, g + i);
      if (b.dropout) {
        const auto mask = hn::Load(d, masks + i);
        used = hn::Mul(used, mask);
        by_weight = hn::Mul(by_weight, mask);
      }
      hn::StoreU(used, d, s + i);
      hn::StoreU(hn::Mul(weight, hn::Sub(by_weight, dot)), d, g + i);
    }
    const int64_t rest = std::min(end, b.keys);
    std::fill(s + rest, s + b.keys, T(0));
    std::fill(g + rest, g + b.keys, T(0));
  }
}

template <class T>
void scale(T* x, int64_t rows, int64_t cols, int64_t stride, const T* factor) {
  for (int64_t row = 0; row < rows; ++row) {
    T* r = x + row * stride;
    each_vector<T>(cols, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, r + i), hn::Set(d, factor[row])), d, r + i);
    });
  }
}

template <class T>
void multiply_rows(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows,
                   int64_t cols, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t row = 0; row < rows; ++row) {
    const T *x = a + row * a_stride, *y = b + row * b_stride;
    auto wide = hn::Zero(d);
    int64_t i = 0;
    for (; i + lanes <= cols; i += lanes)
      wide = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), wide);
    T sum = hn::GetLane(hn::SumOfLanes(d, wide));
    for (; i < cols; ++i) sum += x[i] * y[i];
    sums[row] = sum;
  }
}

template <class T>
T* at(void* p) {
  return static_cast<T*>(p);
}
template <class T>
const T* at(const void* p) {
  return static_cast<const T*>(p);
}

void run_weights(bool wide, const ScoreBlock& b, void* top, void* sum, void* factor) {
  wide ? weigh(b, at<double>(top), at<double>(sum), at<double>(factor))
       : weigh(b, at<float>(top), at<float>(sum), at<float>(factor));
}
void run_gradients(bool wide, const ScoreBlock& b, void* grads, const void* logsumexp,
                   const void* dots) {
  wide ? gradients(b, at<double>(grads), at<double>(logsumexp), at<double>(dots))
       : gradients(b, at<float>(grads), at<float>(logsumexp), at<float>(dots));
}
void run_scale(bool wide, void* x, int64_t rows, int64_t cols, int64_t stride, const void* factor) {
  wide ? scale(at<double>(x), rows, cols, stride, at<double>(factor))
       : scale(at<float>(x), rows, cols, stride, at<float>(factor));
}
void run_dot(bool wide, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
             int64_t rows, int64_t cols, void* sums) {
  wide ? multiply_rows(at<double>(a), a_stride, at<double>(b), b_stride, rows, cols,
                       at<double>(sums))
       : multiply_rows(at<float>(a), a_stride, at<float>(b), b_stride, rows, cols, at<float>(sums));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(run_weights);
HWY_EXPORT(run_gradients);
HWY_EXPORT(run_scale);
HWY_EXPORT(run_dot);

namespace cpu {

namespace {
template <class T>
void ends(int64_t rows, const T* top, const T* sum, T* factor, T* logsumexp) {
  for (int64_t i = 0; i < rows; ++i) {
    const bool blind = sum[i] == T(0);
    factor[i] = blind ? T(1) : T(1) / sum[i];
    logsumexp[i] = blind ? std::numeric_limits<T>::infinity() : top[i] + std::log(sum[i]);
  }
}
}  // namespace

void attention_weights(bool wide, const ScoreBlock& block, void* top, void* sum, void* factor) {
  HWY_DYNAMIC_DISPATCH(run_weights)(wide, block, top, sum, factor);
}
void attention_ends(bool wide, int64_t rows, const void* top, const void* sum, void* factor,
                    void* logsumexp) {
  const auto run = [&]<class T>(T) {
    ends(rows, static_cast<const T*>(top), static_cast<const T*>(sum), static_cast<T*>(factor),
         static_cast<T*>(logsumexp));
  };
  wide ? run(double()) : run(float());
}
void attention_backward(bool wide, const ScoreBlock& block, void* grads, const void* logsumexp,
                        const void* dots) {
  HWY_DYNAMIC_DISPATCH(run_gradients)(wide, block, grads, logsumexp, dots);
}
void scale_rows(bool wide, void* x, int64_t rows, int64_t cols, int64_t stride,
                const void* factor) {
  HWY_DYNAMIC_DISPATCH(run_scale)(wide, x, rows, cols, stride, factor);
}
void dot_rows(bool wide, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
              int64_t rows, int64_t cols, void* sums) {
  HWY_DYNAMIC_DISPATCH(run_dot)(wide, a, a_stride, b, b_stride, rows, cols, sums);
}

}  // namespace cpu
}  // namespace moonlet
#endif
