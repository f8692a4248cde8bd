// tensor/functors/optim_math-inl.h: what the updates of tensor/functors/optimizers.lua are written
// in, for the CPU's vectors and CUDA, and the updates: `update(step, x, g, states)` moves elements
// of a parameter, given those of its gradient and of its states.
//
// CPU: included once per Highway target after simd-inl.h; all lies in moonlet::HWY_NAMESPACE.
// CUDA (and plain host code): included once; all lies in moonlet::optim.
#if defined(MOONLET_TENSOR_OPTIM_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_OPTIM_MATH_INL_H_
#undef MOONLET_TENSOR_OPTIM_MATH_INL_H_
#else
#define MOONLET_TENSOR_OPTIM_MATH_INL_H_
#endif

#include <type_traits>

#include "tensor/functors/functor_math.h"
#include "tensor/optim_steps.h"

#undef MOONLET_STEPS_NAMESPACE
#undef MOONLET_STEP_FN
#ifdef HWY_NAMESPACE
#define MOONLET_STEPS_NAMESPACE HWY_NAMESPACE
#define MOONLET_STEP_FN HWY_INLINE
HWY_BEFORE_NAMESPACE();
#else
#define MOONLET_STEPS_NAMESPACE optim
#define MOONLET_STEP_FN MOONLET_HD
#endif

namespace moonlet {
namespace MOONLET_STEPS_NAMESPACE {

using namespace ::moonlet::fn;     // NOLINT(google-build-using-namespace)
using namespace ::moonlet::optim;  // NOLINT(google-build-using-namespace)

#undef MOONLET_MIXED
#define MOONLET_MIXED(op)                        \
  template <class V>                             \
  MOONLET_STEP_FN V operator op(Number a, V b) { \
    return V(a) op b;                            \
  }                                              \
  template <class V>                             \
  MOONLET_STEP_FN V operator op(V a, Number b) { \
    return a op V(b);                            \
  }
MOONLET_MIXED(+)
MOONLET_MIXED(-)
MOONLET_MIXED(*)

// Of two numbers a comparison is the same for all elements.
template <class V, class A, class B>
MOONLET_STEP_FN auto gt_value(A a, B b) {
  if constexpr (std::is_same_v<A, Number> && std::is_same_v<B, Number>)
    return a.value > b.value;
  else
    return V(a) > V(b);
}
template <class V, class A, class B>
MOONLET_STEP_FN auto lt_value(A a, B b) {
  return gt_value<V>(b, a);
}
template <class V, class M, class A, class B>
MOONLET_STEP_FN V where_value(M mask, A a, B b) {
  if constexpr (std::is_same_v<M, bool>)
    return mask ? V(a) : V(b);
  else
    return select(mask, V(a), V(b));
}
// a / b for b of 0, of an infinity or from 2^-126 to 2^126, and the root: CUDA's instructions for
// floats are within two units of the last digit.
template <class V, class A>
MOONLET_STEP_FN V ratio_value(A a, V b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, float>) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    return V(a) * inverse;
  }
#endif
  return V(a) / b;
}
template <class V>
MOONLET_STEP_FN V root_value(V x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, float>) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
  }
#endif
  return vsqrt(x);
}
template <class V>
MOONLET_STEP_FN V maximum_value(V a, V b) {
  return where_value<V>(a > b, a, b);
}
template <class V>
MOONLET_STEP_FN V clamp_value(V x, Number least, Number most) {
  return where_value<V>(x < V(least), least, where_value<V>(x > V(most), most, x));
}
template <class V>
MOONLET_STEP_FN V lerp_value(V start, V end, Number weight) {
  return start + weight * (end - start);
}
template <class V>
MOONLET_STEP_FN V sign_value(V x) {
  return where_value<V>(x > V(0), Number{1}, where_value<V>(x < V(0), Number{-1}, Number{0}));
}

#include "tensor/optim_updates-inl.h"

}  // namespace MOONLET_STEPS_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
