// tensor/functors-inl.h: what each pointwise op does to one element, written once for the CPU's
// vectors, single values and CUDA. A functor is named as its op in CamelCase; tensors come first,
// then scalar parameters, all as V. Comparisons return 1 or 0 in V, and masks arrive so.
//
// CPU: included once per Highway target after simd-inl.h; the functors lie in
// moonlet::HWY_NAMESPACE. CUDA (and plain host code): included once; they lie in
// moonlet::functors, and MOONLET_FN may be defined beforehand.
#if defined(MOONLET_TENSOR_FUNCTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_FUNCTORS_INL_H_
#undef MOONLET_TENSOR_FUNCTORS_INL_H_
#else
#define MOONLET_TENSOR_FUNCTORS_INL_H_
#endif

#include "tensor/functor_math.h"

#undef MOONLET_FUNCTOR_NAMESPACE
#ifdef HWY_NAMESPACE
#define MOONLET_FUNCTOR_NAMESPACE HWY_NAMESPACE
#undef MOONLET_FN
#define MOONLET_FN HWY_INLINE
HWY_BEFORE_NAMESPACE();
#else
#define MOONLET_FUNCTOR_NAMESPACE functors
#ifndef MOONLET_FN
#define MOONLET_FN MOONLET_HD
#endif
#endif

namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {

// Single values have no namespace to be looked up in, so their vocabulary is brought here.
using namespace ::moonlet::fn;  // NOLINT(google-build-using-namespace)

// Functors of one, two, ... values of any V: the name, those of the values, an expression.
#define MOONLET_FUNCTOR1(NAME, ...)      \
  struct NAME {                          \
    template <class V>                   \
    MOONLET_FN V operator()(V x) const { \
      return __VA_ARGS__;                \
    }                                    \
  };
#define MOONLET_FUNCTOR2(NAME, A, B, ...)     \
  struct NAME {                               \
    template <class V>                        \
    MOONLET_FN V operator()(V A, V B) const { \
      return __VA_ARGS__;                     \
    }                                         \
  };
#define MOONLET_FUNCTOR3(NAME, A, B, C, ...)       \
  struct NAME {                                    \
    template <class V>                             \
    MOONLET_FN V operator()(V A, V B, V C) const { \
      return __VA_ARGS__;                          \
    }                                              \
  };
#define MOONLET_FUNCTOR4(NAME, A, B, C, D, ...)         \
  struct NAME {                                         \
    template <class V>                                  \
    MOONLET_FN V operator()(V A, V B, V C, V D) const { \
      return __VA_ARGS__;                               \
    }                                                   \
  };

// A mask as 1 or 0.
template <class V, class M>
MOONLET_FN V one_if(M mask) {
  return select(mask, V(1), V(0));
}
template <class V>
MOONLET_FN V sigmoid_of(V x) {
  return V(1) / (V(1) + vexp(-x));
}
// log(1 + e^x) without overflow.
template <class V>
MOONLET_FN V softplus_of(V x) {
  return vmax(x, V(0)) + vlog1p(vexp(-vabs(x)));
}

// The formatter takes the expressions for declarations (`x& y`).
// clang-format off

// Arithmetic.
MOONLET_FUNCTOR2(Add, x, y, vadd(x, y))
MOONLET_FUNCTOR2(Sub, x, y, vsub(x, y))
MOONLET_FUNCTOR3(AddScaled, x, y, alpha, vadd(x, vmul(alpha, y)))
MOONLET_FUNCTOR3(SubScaled, x, y, alpha, vsub(x, vmul(alpha, y)))
MOONLET_FUNCTOR2(Mul, x, y, vmul(x, y))
MOONLET_FUNCTOR2(Div, x, y, x / y)
MOONLET_FUNCTOR2(FloorDivide, x, y, vfloor_div(x, y))
struct TruncDivide {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return vtrunc(x / y);
  }
  MOONLET_FN int64_t operator()(int64_t x, int64_t y) const { return int_quotient(x, y); }
};
MOONLET_FUNCTOR2(Remainder, x, y, vremainder(x, y))
MOONLET_FUNCTOR2(Fmod, x, y, vfmod(x, y))
MOONLET_FUNCTOR2(Pow, x, y, vpow(x, y))
MOONLET_FUNCTOR2(Maximum, x, y, select(x != x, x, select(y != y, y, vmax(x, y))))
MOONLET_FUNCTOR2(Minimum, x, y, select(x != x, x, select(y != y, y, vmin(x, y))))
MOONLET_FUNCTOR2(ClampMin, x, bound, select(x < bound, bound, select(bound != bound, bound, x)))
MOONLET_FUNCTOR2(ClampMax, x, bound, select(x > bound, bound, select(bound != bound, bound, x)))
MOONLET_FUNCTOR3(ClampBetween, x, low, high, ClampMax()(ClampMin()(x, low), high))
MOONLET_FUNCTOR2(Fmax, x, y, select(x != x, y, select(y != y, x, vmax(x, y))))
MOONLET_FUNCTOR2(Fmin, x, y, select(x != x, y, select(y != y, x, vmin(x, y))))
MOONLET_FUNCTOR4(ReplaceNonfinite, x, nan, high, low,
                 select(x != x, nan, select(x == V(HUGE_VAL), high,
                                            select(x == V(-HUGE_VAL), low, x))))
MOONLET_FUNCTOR2(Gcd, x, y, vgcd(x, y))
MOONLET_FUNCTOR2(Lcm, x, y, vlcm(x, y))
MOONLET_FUNCTOR2(Atan2, y, x, vatan2(y, x))
MOONLET_FUNCTOR2(Hypot, x, y, vhypot(x, y))
// The form from the nearer end is exact at both.
struct Lerp {
  template <class V>
  MOONLET_FN V operator()(V x, V end, V w) const {
    return select(is_near(w), x + w * (end - x), end - (end - x) * (V(1) - w));
  }

 private:
  template <class V>
  static MOONLET_FN auto is_near(V w) {
    if constexpr (is_complex_value<V>)
      return real_part(w) * real_part(w) + imag_part(w) * imag_part(w) < 0.25f;
    else
      return vabs(w) < V(0.5);
  }
};
MOONLET_FUNCTOR4(Addcmul, x, a, b, value, vadd(x, vmul(value, vmul(a, b))))
MOONLET_FUNCTOR4(Addcdiv, x, a, b, value, x + value * (a / b))
struct Neg {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return -x;
  }
  MOONLET_FN int64_t operator()(int64_t x) const { return vsub(int64_t{0}, x); }
};
MOONLET_FUNCTOR1(Abs, vabs(x))
MOONLET_FUNCTOR1(Sign, select(x > V(0), V(1), select(x < V(0), V(-1), V(0))))
struct Sgn {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    if constexpr (is_complex_value<V>) {
      const V size = vabs(x);
      return size == V(0) ? size : x / size;
    } else {
      return Sign()(x);
    }
  }
};
MOONLET_FUNCTOR2(Copysign, x, y, vcopysign(x, y))
MOONLET_FUNCTOR1(Square, vmul(x, x))
MOONLET_FUNCTOR1(Sqrt, vsqrt(x))
MOONLET_FUNCTOR1(Rsqrt, V(1) / vsqrt(x))
MOONLET_FUNCTOR1(Reciprocal, V(1) / x)
MOONLET_FUNCTOR1(Floor, vfloor(x))
MOONLET_FUNCTOR1(Ceil, vceil(x))
MOONLET_FUNCTOR1(Round, vround(x))
MOONLET_FUNCTOR1(Trunc, vtrunc(x))
MOONLET_FUNCTOR1(Frac, x - vtrunc(x))

// Exponentials, logarithms, trigonometry.
MOONLET_FUNCTOR1(Exp, vexp(x))
MOONLET_FUNCTOR1(Exp2, vexp2(x))
MOONLET_FUNCTOR1(Expm1, vexpm1(x))
MOONLET_FUNCTOR1(Log, vlog(x))
MOONLET_FUNCTOR1(Log2, vlog2(x))
MOONLET_FUNCTOR1(Log10, vlog10(x))
MOONLET_FUNCTOR1(Log1p, vlog1p(x))
// Equal arguments apart: the difference of two infinities is not a number.
struct Logaddexp {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    if constexpr (is_complex_value<V>) {
      if (x == y) return x + V(0.69314718055994530942);
      return real_part(x) < real_part(y) ? y + vlog1p(vexp(x - y)) : x + vlog1p(vexp(y - x));
    } else {
      return select(x == y, x + V(0.69314718055994530942), vmax(x, y) + vlog1p(vexp(-vabs(x - y))));
    }
  }
};
MOONLET_FUNCTOR2(Logaddexp2, x, y, select(x == y, x + V(1),
                                          vmax(x, y) + vlog1p(vexp2(-vabs(x - y))) *
                                                           V(1.44269504088896340736)))
MOONLET_FUNCTOR1(Sin, vsin(x))
MOONLET_FUNCTOR1(Cos, vcos(x))
MOONLET_FUNCTOR1(Tan, vtan(x))
MOONLET_FUNCTOR1(Asin, vasin(x))
MOONLET_FUNCTOR1(Acos, vacos(x))
MOONLET_FUNCTOR1(Atan, vatan(x))
MOONLET_FUNCTOR1(Sinh, vsinh(x))
MOONLET_FUNCTOR1(Cosh, vcosh(x))
MOONLET_FUNCTOR1(Tanh, vtanh(x))
MOONLET_FUNCTOR1(Asinh, vasinh(x))
MOONLET_FUNCTOR1(Acosh, vacosh(x))
MOONLET_FUNCTOR1(Atanh, vatanh(x))
MOONLET_FUNCTOR1(Erf, verf(x))
MOONLET_FUNCTOR1(Erfc, verfc(x))
MOONLET_FUNCTOR2(TanhGradX, grad, y, grad * vconj(V(1) - y * y))
MOONLET_FUNCTOR1(FrexpMantissa, vmantissa(x))
MOONLET_FUNCTOR1(FrexpExponent, vexponent(x))
MOONLET_FUNCTOR2(NextafterWide, x, other, vnextafter(x, other))
// The numbers of a format lie 2^(exponent - 1 - digits) apart, half of that below a power of two, and
// never less than its smallest.
struct NextafterBy {
  template <class V>
  MOONLET_FN V operator()(V x, V other, V digits, V smallest) const {
    const V step = vmax(vpower_of_two(vexponent(x) - V(1) - digits), smallest);
    const V below = select(vabs(vmantissa(x)) == V(0.5), vmax(step * V(0.5), smallest), step);
    const V largest = (V(2) - vpower_of_two(-digits)) * (V(2) / (smallest * vpower_of_two(digits)));
    const V size = vabs(x);
    const V grows = select(x < V(0), one_if<V>(other < x), one_if<V>(other > x));
    const V moved = select(grows == V(1), size + step,
                           select(size == V(HUGE_VAL), largest, size - below));
    const V y = select(x == V(0), vcopysign(smallest, other), vcopysign(moved, x));
    return select((x != x) || (other != other), x + other, select(x == other, other, y));
  }
};

// Complex numbers.
MOONLET_FUNCTOR1(Conj, vconj(x))
struct Angle {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    if constexpr (is_complex_value<V>)
      return vangle(x);
    else
      return select(x < V(0), V(3.14159265358979323846), select(x != x, x, V(0)));
  }
};

// Bits and truth values.
MOONLET_FUNCTOR2(BitwiseAnd, x, y, x & y)
MOONLET_FUNCTOR2(BitwiseOr, x, y, x | y)
MOONLET_FUNCTOR2(BitwiseXor, x, y, x ^ y)
MOONLET_FUNCTOR1(BitwiseInvert, ~x)
MOONLET_FUNCTOR2(BitwiseLeftShift, x, n, vshift_left(x, n))
MOONLET_FUNCTOR2(BitwiseRightShift, x, n, vshift_right(x, n))
MOONLET_FUNCTOR2(LogicalAnd, x, y, one_if<V>((x != V(0)) && (y != V(0))))
MOONLET_FUNCTOR2(LogicalOr, x, y, one_if<V>((x != V(0)) || (y != V(0))))
MOONLET_FUNCTOR2(LogicalXor, x, y, select(x != V(0), one_if<V>(y == V(0)), one_if<V>(y != V(0))))
MOONLET_FUNCTOR1(LogicalNot, one_if<V>(x == V(0)))

// Comparisons and choices.
MOONLET_FUNCTOR2(Eq, x, y, one_if<V>(x == y))
MOONLET_FUNCTOR2(Ne, x, y, one_if<V>(x != y))
MOONLET_FUNCTOR2(Lt, x, y, one_if<V>(x < y))
MOONLET_FUNCTOR2(Le, x, y, one_if<V>(x <= y))
MOONLET_FUNCTOR2(Gt, x, y, one_if<V>(x > y))
MOONLET_FUNCTOR2(Ge, x, y, one_if<V>(x >= y))
MOONLET_FUNCTOR1(Isnan, one_if<V>(x != x))
struct Isinf {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    if constexpr (is_complex_value<V>)
      return one_if<V>(vabs(real_part(x)) == HUGE_VALF || vabs(imag_part(x)) == HUGE_VALF);
    else
      return one_if<V>(vabs(x) == V(HUGE_VAL));
  }
};
struct Isfinite {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    if constexpr (is_complex_value<V>)
      return one_if<V>(vabs(real_part(x)) < HUGE_VALF && vabs(imag_part(x)) < HUGE_VALF);
    else
      return one_if<V>(vabs(x) < V(HUGE_VAL));
  }
};
MOONLET_FUNCTOR1(Isposinf, one_if<V>(x == V(HUGE_VAL)))
MOONLET_FUNCTOR1(Isneginf, one_if<V>(x == V(-HUGE_VAL)))
MOONLET_FUNCTOR1(Signbit, one_if<V>(vcopysign(V(1), x) < V(0)))
MOONLET_FUNCTOR2(Heaviside, x, value, select(x == V(0), value, one_if<V>(x > V(0))))
MOONLET_FUNCTOR3(Where, mask, x, y, select(mask != V(0), x, y))
MOONLET_FUNCTOR3(MaskedFill, x, mask, value, select(mask != V(0), value, x))

// Activations.
MOONLET_FUNCTOR1(Relu, select(x <= V(0), V(0), x))
MOONLET_FUNCTOR2(ReluGradX, grad, y, select(y <= V(0), V(0), grad))
MOONLET_FUNCTOR1(Relu6, select(x <= V(0), V(0), select(x > V(6), V(6), x)))
MOONLET_FUNCTOR2(LeakyRelu, x, slope, select(x <= V(0), x * slope, x))
MOONLET_FUNCTOR2(Elu, x, alpha, select(x <= V(0), alpha * vexpm1(x), x))
MOONLET_FUNCTOR2(Celu, x, alpha, select(x <= V(0), alpha * vexpm1(x / alpha), x))
MOONLET_FUNCTOR1(Selu, V(1.0507009873554804934193349852946) *
                           select(x <= V(0), V(1.6732632423543772848170429916717) * vexpm1(x), x))
MOONLET_FUNCTOR1(Sigmoid, sigmoid_of(x))
MOONLET_FUNCTOR2(SigmoidGradX, grad, y, grad * vconj((V(1) - y) * y))
MOONLET_FUNCTOR1(Logsigmoid, vmin(x, V(0)) - vlog1p(vexp(-vabs(x))))
MOONLET_FUNCTOR1(GeluErf, V(0.5) * x * (V(1) + verf(x * V(0.70710678118654752440))))
MOONLET_FUNCTOR1(GeluTanh, V(0.5) * x * (V(1) + vtanh(V(0.79788456080286535588) *
                                                      (x + V(0.044715) * x * x * x))))
struct GeluErfGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    const V cdf = V(0.5) * (V(1) + verf(x * V(0.70710678118654752440)));
    return grad * (cdf + x * vexp(V(-0.5) * x * x) * V(0.39894228040143267794));
  }
};
MOONLET_FUNCTOR1(Silu, x / (V(1) + vexp(-x)))
struct SiluGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    const V s = sigmoid_of(x);
    return grad * vconj(s * (V(1) + x * (V(1) - s)));
  }
};
MOONLET_FUNCTOR1(Mish, x * vtanh(softplus_of(x)))
MOONLET_FUNCTOR3(Softplus, x, beta, threshold,
                 select(x * beta > threshold, x, vlog1p(vexp(x * beta)) / beta))
MOONLET_FUNCTOR3(Hardtanh, x, low, high, select(x < low, low, select(x > high, high, x)))
MOONLET_FUNCTOR1(Hardsigmoid, select(x <= V(-3), V(0), select(x >= V(3), V(1), x / V(6) + V(0.5))))
// Minus infinity times the slope 0 is not a number.
MOONLET_FUNCTOR1(Hardswish, select(x >= V(3), x, x * vmax(x + V(3), V(0)) / V(6)))
MOONLET_FUNCTOR2(Hardshrink, x, lambd, select(vabs(x) <= lambd, V(0), x))
MOONLET_FUNCTOR1(Softsign, x / (V(1) + vabs(x)))
MOONLET_FUNCTOR3(Threshold, x, threshold, value, select(x <= threshold, value, x))

// clang-format on

#undef MOONLET_FUNCTOR1
#undef MOONLET_FUNCTOR2
#undef MOONLET_FUNCTOR3
#undef MOONLET_FUNCTOR4

}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
