// tensor/program/jit/op_table-inl.h: the rows that become machine code, included by a file for each
// instruction set, which defines MOONLET_TRACED_TARGET, MOONLET_TRACED_NAMESPACE and
// MOONLET_TRACED_OPS. A row is here if what its functor does is the same for all elements: none
// that goes through lanes one by one, that divides integers, or that computes float32 in float64.
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/highway.h"
// The functors' own headers take what follows for one more target of Highway.
#undef HWY_NAMESPACE
#define HWY_NAMESPACE MOONLET_TRACED_NAMESPACE
#undef HWY_TARGET
#define HWY_TARGET MOONLET_TRACED_TARGET
#undef HWY_BEFORE_NAMESPACE
#define HWY_BEFORE_NAMESPACE() static_assert(true)
#undef HWY_AFTER_NAMESPACE
#define HWY_AFTER_NAMESPACE() static_assert(true)
#undef HWY_INLINE
#define HWY_INLINE inline
#undef HWY_ATTR
#define HWY_ATTR

#include "tensor/program/jit/lanes-inl.h"
//
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/functors/functors-inl.h"
#include "tensor/program/jit/op_table.h"

namespace moonlet::HWY_NAMESPACE {

namespace {

template <class F, class T, size_t... I>
int run_functor(const int* arguments, std::index_sequence<I...>) {
  return F()(vec<T>(hn::Traced<T>{{arguments[I]}})...).v.raw.id;
}
template <class F, class T, int kArguments>
int run(const int* arguments) {
  return run_functor<F, T>(arguments, std::make_index_sequence<kArguments>());
}

// The row's name, its functor, how many tensors and numbers that takes; of those below, integers.
#define MOONLET_TRACED_FLOATS(X)                                                               \
  X(div, Div, 2, 0)                                                                            \
  X(copysign, Copysign, 2, 0)                                                                  \
  X(sqrt, Sqrt, 1, 0)                                                                          \
  X(rsqrt, Rsqrt, 1, 0)                                                                        \
  X(reciprocal, Reciprocal, 1, 0)                                                              \
  X(fmax, Fmax, 2, 0)                                                                          \
  X(fmin, Fmin, 2, 0)                                                                          \
  X(replace_nonfinite, ReplaceNonfinite, 1, 3)                                                 \
  X(lerp, Lerp, 3, 0)                                                                          \
  X(addcdiv, Addcdiv, 3, 1)                                                                    \
  X(abs, Abs, 1, 0)                                                                            \
  X(floor, Floor, 1, 0)                                                                        \
  X(ceil, Ceil, 1, 0)                                                                          \
  X(round, Round, 1, 0)                                                                        \
  X(trunc, Trunc, 1, 0)                                                                        \
  X(round_to_parts, RoundToParts, 1, 1)                                                        \
  X(round_to_multiples, RoundToMultiples, 1, 1)                                                \
  X(frac, Frac, 1, 0)                                                                          \
  X(exp, Exp, 1, 0)                                                                            \
  X(exp2, Exp2, 1, 0)                                                                          \
  X(expm1, Expm1, 1, 0)                                                                        \
  X(log, Log, 1, 0)                                                                            \
  X(log2, Log2, 1, 0)                                                                          \
  X(log10, Log10, 1, 0)                                                                        \
  X(log1p, Log1p, 1, 0)                                                                        \
  X(logaddexp, Logaddexp, 2, 0)                                                                \
  X(logaddexp2, Logaddexp2, 2, 0)                                                              \
  X(scaled_exp, ScaledExp, 3, 0)                                                               \
  X(asin, Asin, 1, 0)                                                                          \
  X(acos, Acos, 1, 0)                                                                          \
  X(atan, Atan, 1, 0)                                                                          \
  X(atan2, Atan2, 2, 0)                                                                        \
  X(atan2_grad_x, Atan2GradX, 3, 0)                                                            \
  X(sinh, Sinh, 1, 0)                                                                          \
  X(cosh, Cosh, 1, 0)                                                                          \
  X(tanh, Tanh, 1, 0)                                                                          \
  X(tanh_grad_x, TanhGradX, 2, 0)                                                              \
  X(asinh, Asinh, 1, 0)                                                                        \
  X(acosh, Acosh, 1, 0)                                                                        \
  X(atanh, Atanh, 1, 0)                                                                        \
  X(erf, Erf, 1, 0)                                                                            \
  X(erfc, Erfc, 1, 0)                                                                          \
  X(erf_grad_x, ErfGradX, 2, 0)                                                                \
  X(pow, Pow, 2, 0)                                                                            \
  X(leaky_relu, LeakyRelu, 1, 1)                                                               \
  X(leaky_relu_grad_x, LeakyReluGradX, 2, 1)                                                   \
  X(relu_grad_x, ReluGradX, 2, 0)                                                              \
  X(elu, Elu, 1, 1)                                                                            \
  X(elu_grad_x, EluGradX, 2, 1)                                                                \
  X(celu, Celu, 1, 1)                                                                          \
  X(celu_grad_x, CeluGradX, 2, 1)                                                              \
  X(selu, Selu, 1, 0)                                                                          \
  X(selu_grad_x, SeluGradX, 2, 0)                                                              \
  X(sigmoid, Sigmoid, 1, 0)                                                                    \
  X(sigmoid_grad_x, SigmoidGradX, 2, 0)                                                        \
  X(logsigmoid, Logsigmoid, 1, 0)                                                              \
  X(logsigmoid_grad_x, LogsigmoidGradX, 2, 0)                                                  \
  X(gelu_erf, GeluErf, 1, 0)                                                                   \
  X(gelu_erf_grad_x, GeluErfGradX, 2, 0)                                                       \
  X(gelu_tanh, GeluTanh, 1, 0)                                                                 \
  X(gelu_tanh_grad_x, GeluTanhGradX, 2, 0)                                                     \
  X(silu, Silu, 1, 0)                                                                          \
  X(silu_grad_x, SiluGradX, 2, 0)                                                              \
  X(mish, Mish, 1, 0)                                                                          \
  X(mish_grad_x, MishGradX, 2, 0)                                                              \
  X(softplus, Softplus, 1, 2)                                                                  \
  X(softplus_grad_x, SoftplusGradX, 2, 2)                                                      \
  X(hardtanh_grad_x, HardtanhGradX, 2, 2)                                                      \
  X(hardsigmoid, Hardsigmoid, 1, 0)                                                            \
  X(hardsigmoid_grad_x, HardsigmoidGradX, 2, 0)                                                \
  X(hardswish, Hardswish, 1, 0)                                                                \
  X(hardswish_grad_x, HardswishGradX, 2, 0)                                                    \
  X(softsign, Softsign, 1, 0)                                                                  \
  X(threshold_grad_x, ThresholdGradX, 2, 1)                                                    \
  X(prelu_by, PreluBy, 2, 0)                                                                   \
  X(prelu_by_grad_x, PreluByGradX, 3, 0)                                                       \
  X(hardshrink, Hardshrink, 1, 1)                                                              \
  X(hardshrink_grad_x, HardshrinkGradX, 2, 1)                                                  \
  X(softshrink_by, SoftshrinkBy, 1, 1)                                                         \
  X(tanhshrink, Tanhshrink, 1, 0)                                                              \
  X(tanhshrink_grad_x, TanhshrinkGradX, 2, 0)                                                  \
  X(isnan, Isnan, 1, 0)                                                                        \
  X(isinf, Isinf, 1, 0)                                                                        \
  X(isfinite, Isfinite, 1, 0)                                                                  \
  X(isposinf, Isposinf, 1, 0)                                                                  \
  X(isneginf, Isneginf, 1, 0)                                                                  \
  X(signbit, Signbit, 1, 0)                                                                    \
  X(is_near, IsNear, 2, 2)                                                                     \
  X(mse_loss_each, MseLossEach, 2, 0)                                                          \
  X(mse_loss_each_grad_x, MseLossEachGradX, 3, 0)                                              \
  X(l1_loss_each, L1LossEach, 2, 0)                                                            \
  X(l1_loss_each_grad_x, L1LossEachGradX, 3, 0)                                                \
  X(smooth_l1_loss_each, SmoothL1LossEach, 2, 1)                                               \
  X(smooth_l1_loss_each_grad_x, SmoothL1LossEachGradX, 3, 1)                                   \
  X(huber_loss_each, HuberLossEach, 2, 1)                                                      \
  X(huber_loss_each_grad_x, HuberLossEachGradX, 3, 1)                                          \
  X(binary_cross_entropy_each, BinaryCrossEntropyEach, 2, 0)                                   \
  X(binary_cross_entropy_each_grad_x, BinaryCrossEntropyEachGradX, 3, 0)                       \
  X(binary_cross_entropy_each_grad_target, BinaryCrossEntropyEachGradTarget, 2, 0)             \
  X(binary_cross_entropy_with_logits_each, BinaryCrossEntropyWithLogitsEach, 2, 0)             \
  X(binary_cross_entropy_with_logits_each_grad_x, BinaryCrossEntropyWithLogitsEachGradX, 3, 0) \
  X(kl_div_each, KlDivEach, 2, 0)                                                              \
  X(soft_margin_loss_each, SoftMarginLossEach, 2, 0)                                           \
  X(soft_margin_loss_each_grad_x, SoftMarginLossEachGradX, 3, 0)                               \
  X(poisson_nll_loss_each, PoissonNllLossEach, 2, 0)                                           \
  X(poisson_nll_loss_each_grad_x, PoissonNllLossEachGradX, 3, 0)

#define MOONLET_TRACED_NUMBERS(X)      \
  X(add, Add, 2, 0)                    \
  X(sub, Sub, 2, 0)                    \
  X(mul, Mul, 2, 0)                    \
  X(add_scaled, AddScaled, 2, 1)       \
  X(sub_scaled, SubScaled, 2, 1)       \
  X(addcmul, Addcmul, 3, 1)            \
  X(neg, Neg, 1, 0)                    \
  X(sign, Sign, 1, 0)                  \
  X(sgn, Sgn, 1, 0)                    \
  X(square, Square, 1, 0)              \
  X(maximum, Maximum, 2, 0)            \
  X(minimum, Minimum, 2, 0)            \
  X(clamp_min, ClampMin, 1, 1)         \
  X(clamp_max, ClampMax, 1, 1)         \
  X(clamp_between, ClampBetween, 1, 2) \
  X(clamp_within, ClampBetween, 3, 0)  \
  X(eq, Eq, 2, 0)                      \
  X(ne, Ne, 2, 0)                      \
  X(lt, Lt, 2, 0)                      \
  X(le, Le, 2, 0)                      \
  X(gt, Gt, 2, 0)                      \
  X(ge, Ge, 2, 0)                      \
  X(heaviside, Heaviside, 2, 0)        \
  X(where, Where, 3, 0)                \
  X(masked_fill, MaskedFill, 2, 1)     \
  X(logical_and, LogicalAnd, 2, 0)     \
  X(logical_or, LogicalOr, 2, 0)       \
  X(logical_xor, LogicalXor, 2, 0)     \
  X(logical_not, LogicalNot, 1, 0)     \
  X(relu, Relu, 1, 0)                  \
  X(relu6, Relu6, 1, 0)                \
  X(hardtanh, Hardtanh, 1, 2)          \
  X(threshold, Threshold, 1, 2)

#define MOONLET_FLOATS_ROW(op, f, n, p) \
  {#op, n, p, run<f, float, n + p>, run<f, double, n + p>, nullptr},
#define MOONLET_NUMBERS_ROW(op, f, n, p) \
  {#op, n, p, run<f, float, n + p>, run<f, double, n + p>, run<f, int64_t, n + p>},

const program::jit::TracedOp ops[] = {MOONLET_TRACED_FLOATS(MOONLET_FLOATS_ROW)
                                          MOONLET_TRACED_NUMBERS(MOONLET_NUMBERS_ROW)};

}  // namespace

}  // namespace moonlet::HWY_NAMESPACE

namespace moonlet::program::jit {

std::span<const TracedOp> MOONLET_TRACED_OPS() { return HWY_NAMESPACE::ops; }

}  // namespace moonlet::program::jit
