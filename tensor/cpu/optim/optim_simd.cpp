// tensor/cpu/optim/optim_simd.cpp: the loops of the optimisers' steps over vectors, one version per
// instruction set, chosen when the program runs.
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/optim/optim_simd.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/optim/optim.h"
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/functors/optim_math-inl.h"

// No inlining, and no copies for some values of the arguments.
#ifndef MOONLET_ONE_COPY
#ifdef __clang__
#define MOONLET_ONE_COPY HWY_NOINLINE
#else
#define MOONLET_ONE_COPY [[gnu::noipa]] HWY_NOINLINE
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class Step>
HWY_INLINE void move_vector(const Step& step, T* const* arrays, int64_t at) {
  const hn::ScalableTag<T> d;
  Vec<T> x = vec<T>(hn::LoadU(d, arrays[0] + at));
  const Vec<T> g = vec<T>(hn::LoadU(d, arrays[1] + at));
  Vec<T> states[Step::kStates];
  for (int s = 0; s < Step::kStates; ++s)
    if (arrays[2 + s]) states[s] = vec<T>(hn::LoadU(d, arrays[2 + s] + at));
  update(step, x, g, states);
  hn::StoreU(x.v, d, arrays[0] + at);
  for (int s = 0; s < Step::kStates; ++s)
    if (arrays[2 + s]) hn::StoreU(states[s].v, d, arrays[2 + s] + at);
}

// One copy for all calls: the compiler joins products and sums as it likes, so that each copy might
// round otherwise, and numbers would depend on which elements a thread ends with.
template <class T, class Step>
MOONLET_ONE_COPY void move_vectors(const Step& given, T* const* given_arrays, int64_t end) {
  const Step step = given;  // stores could change one behind a reference
  T* arrays[2 + Step::kStates];
  for (int a = 0; a < 2 + Step::kStates; ++a) arrays[a] = given_arrays[a];
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t i = 0; i < end; i += lanes) move_vector(step, arrays, i);
}

// What is left goes through a whole vector too: an element moves alike wherever it lies.
template <class T, class Step>
void move_rest(const Step& step, T* const* arrays, int64_t at, int64_t count) {
  HWY_ALIGN T lanes[2 + Step::kStates][HWY_MAX_BYTES / sizeof(T)] = {};
  T* rows[2 + Step::kStates];
  for (int a = 0; a < 2 + Step::kStates; ++a) {
    rows[a] = arrays[a] ? lanes[a] : nullptr;
    for (int64_t i = 0; arrays[a] && i < count; ++i) lanes[a][i] = arrays[a][at + i];
  }
  move_vectors(step, static_cast<T* const*>(rows), count);
  for (int a = 0; a < 2 + Step::kStates; ++a)
    for (int64_t i = 0; a != 1 && arrays[a] && i < count; ++i) arrays[a][at + i] = lanes[a][i];
}

template <class T, class Step>
HWY_INLINE void step_loop(const Step& step, T* const* arrays, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t whole = count - count % lanes;
  move_vectors(step, arrays, whole);
  if (whole < count) move_rest(step, arrays, whole, count - whole);
}

#define MOONLET_STEP_LOOP(Step)                                                   \
  void float_##Step(const optim::Step& step, float* const* arrays, int64_t n) {   \
    step_loop(step, arrays, n);                                                   \
  }                                                                               \
  void double_##Step(const optim::Step& step, double* const* arrays, int64_t n) { \
    step_loop(step, arrays, n);                                                   \
  }
MOONLET_OPTIM_STEPS(MOONLET_STEP_LOOP)

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
#define MOONLET_STEP_EXPORT(Step) \
  HWY_EXPORT(float_##Step);       \
  HWY_EXPORT(double_##Step);
MOONLET_OPTIM_STEPS(MOONLET_STEP_EXPORT)

namespace cpu {

#define MOONLET_STEP_TABLE(Step)                                                  \
  template <>                                                                     \
  void step_loop(const optim::Step& step, float* const* arrays, int64_t count) {  \
    HWY_DYNAMIC_DISPATCH(float_##Step)(step, arrays, count);                      \
  }                                                                               \
  template <>                                                                     \
  void step_loop(const optim::Step& step, double* const* arrays, int64_t count) { \
    HWY_DYNAMIC_DISPATCH(double_##Step)(step, arrays, count);                     \
  }
MOONLET_OPTIM_STEPS(MOONLET_STEP_TABLE)

}  // namespace cpu
}  // namespace moonlet
#endif
