// tensor/functors/functors-inl.h: what each pointwise op does to one element, written once for the
// CPU's vectors, single values and CUDA. A functor is named as its op in CamelCase; tensors come
// first, then scalar parameters, all as V. Comparisons return 1 or 0 in V, and masks arrive so.
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

#include "tensor/functors/functor_math.h"

#undef MOONLET_FUNCTOR_NAMESPACE
#ifdef HWY_NAMESPACE
#define MOONLET_FUNCTOR_NAMESPACE HWY_NAMESPACE
#undef MOONLET_FN
#define MOONLET_FN HWY_INLINE
#undef MOONLET_LONG_FN
#define MOONLET_LONG_FN HWY_NOINLINE
#undef MOONLET_LAMBDA
#define MOONLET_LAMBDA HWY_ATTR
HWY_BEFORE_NAMESPACE();
#else
#define MOONLET_FUNCTOR_NAMESPACE functors
#ifndef MOONLET_FN
#define MOONLET_FN MOONLET_HD
#endif
#define MOONLET_LONG_FN MOONLET_FN
#define MOONLET_LAMBDA
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

// The sign of a 16-bit float.
constexpr uint16_t kSignOfHalf = 0x8000;

// A mask as 1 or 0.
template <class V, class M>
MOONLET_FN V one_if(M mask) {
  return select(mask, V(1), V(0));
}
template <class V>
MOONLET_FN V sigmoid_of(V x) {
  return V(1) / (V(1) + vexp(-x));
}
// Whether one is below 0 and the other above.
template <class V>
MOONLET_FN auto signs_differ(V x, V y) {
  return (x < V(0) && y > V(0)) || (x > V(0) && y < V(0));
}
// log(1 + e^x) without overflow.
template <class V>
MOONLET_FN V softplus_of(V x) {
  return vmax(x, V(0)) + vlog1p_unit(vexp(-vabs(x)));
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
struct FloorDivide {
  // With the care that PyTorch takes of the remainder.
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    const V rest = vfmod(x, y);
    const V q = (x - rest) / y - one_if<V>(signs_differ(rest, y));
    const V whole = vfloor(q) + one_if<V>(q - vfloor(q) > V(0.5));
    return select(y == V(0), x / y, select(q == V(0), vcopysign(V(0), x / y), whole));
  }
  MOONLET_FN int64_t operator()(int64_t x, int64_t y) const { return vfloor_div(x, y); }
};
struct TruncDivide {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return vtrunc(x / y);
  }
  MOONLET_FN int64_t operator()(int64_t x, int64_t y) const { return int_quotient(x, y); }
};
struct Remainder {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    const V rest = vfmod(x, y);
    return select(signs_differ(rest, y), rest + y, rest);
  }
  MOONLET_FN int64_t operator()(int64_t x, int64_t y) const { return vremainder(x, y); }
};
MOONLET_FUNCTOR2(Fmod, x, y, vfmod(x, y))
MOONLET_FUNCTOR2(Pow, x, y, vpow(x, y))
MOONLET_FUNCTOR2(Maximum, x, y, select((x < y) || (y != y), y, x))
MOONLET_FUNCTOR2(Minimum, x, y, select((x > y) || (y != y), y, x))
MOONLET_FUNCTOR2(ClampMin, x, bound, Maximum()(x, bound))
MOONLET_FUNCTOR2(ClampMax, x, bound, Minimum()(x, bound))
MOONLET_FUNCTOR3(ClampBetween, x, low, high, ClampMax()(ClampMin()(x, low), high))
MOONLET_FUNCTOR2(Fmax, x, y, select(x != x, y, select(y != y, x, vmax(x, y))))
MOONLET_FUNCTOR2(Fmin, x, y, select(x != x, y, select(y != y, x, vmin(x, y))))
MOONLET_FUNCTOR4(ReplaceNonfinite, x, nan, high, low,
                 select(x != x, nan, select(x == V(HUGE_VAL), high,
                                            select(x == V(-HUGE_VAL), low, x))))
struct Gcd {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return vgcd(x, y);
  }
  static constexpr int kGroup = fn::kGcdGroup;
  static MOONLET_FN void of_group(const int64_t* x, const int64_t* y, int64_t* to) {
    fn::group_gcd(x, y, to);
  }
};
struct Lcm {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return vlcm(x, y);
  }
  static constexpr int kGroup = fn::kGcdGroup;
  static MOONLET_FN void of_group(const int64_t* x, const int64_t* y, int64_t* to) {
    int64_t divisors[kGroup];
    fn::group_gcd(x, y, divisors);
    for (int k = 0; k < kGroup; ++k) to[k] = fn::lcm_of(x[k], y[k], divisors[k]);
  }
};
MOONLET_FUNCTOR2(Atan2, y, x, vatan2(y, x))
MOONLET_FUNCTOR3(Atan2GradX, grad, y, x, grad * (x / (y * y + x * x)))
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
  static MOONLET_FN uint16_t of_bits(uint16_t x) { return x ^ kSignOfHalf; }
};
struct Abs {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return vabs(x);
  }
  template <class V>
  static MOONLET_FN V of_parts(V real, V imaginary) {
    return vhypot(real, imaginary);
  }
  static MOONLET_FN uint16_t of_bits(uint16_t x) { return x & ~kSignOfHalf; }
};
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
struct Copysign {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return vcopysign(x, y);
  }
  static MOONLET_FN uint16_t of_bits(uint16_t x, uint16_t y) {
    return (x & ~kSignOfHalf) | (y & kSignOfHalf);
  }
};
MOONLET_FUNCTOR1(Square, vmul(x, x))
MOONLET_FUNCTOR1(Sqrt, vsqrt(x))
MOONLET_FUNCTOR1(Rsqrt, V(1) / vsqrt(x))
MOONLET_FUNCTOR1(Reciprocal, V(1) / x)
MOONLET_FUNCTOR1(Floor, vfloor(x))
MOONLET_FUNCTOR1(Ceil, vceil(x))
MOONLET_FUNCTOR1(Round, vround(x))
MOONLET_FUNCTOR1(Trunc, vtrunc(x))
// To multiples of down / up; one of them is 1.
MOONLET_FUNCTOR2(RoundToParts, x, parts, vround(x * parts) / parts)
MOONLET_FUNCTOR2(RoundToMultiples, x, unit, vround(x / unit) * unit)
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
      return select(x == y, x + V(0.69314718055994530942), vmax(x, y) + vlog1p_unit(vexp(-vabs(x - y))));
    }
  }
};
MOONLET_FUNCTOR2(Logaddexp2, x, y, select(x == y, x + V(1),
                                          vmax(x, y) + vlog1p_unit(vexp2(-vabs(x - y))) *
                                                           V(1.44269504088896340736)))
MOONLET_FUNCTOR3(ScaledExp, scale, x, shift, scale * vexp(x - shift))
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
MOONLET_FUNCTOR2(ErfGradX, grad, x, grad * (V(1.12837916709551257390) * vexp(-x * x)))
MOONLET_FUNCTOR2(TanhGradX, grad, y, grad * vconj(V(1) - y * y))
MOONLET_FUNCTOR1(FrexpMantissa, vmantissa(x))
MOONLET_FUNCTOR1(FrexpExponent, vexponent(x))
MOONLET_FUNCTOR2(NextafterWide, x, other, vnextafter(x, other))
// The numbers of a format lie 2^(exponent - 1 - digits) apart, half of that below a power of two, and
// never less than its smallest.
struct NextafterBy {
  template <class V>
  MOONLET_FN V operator()(V x, V other, V digits, V smallest) const {
    const V size = vabs(x), leading = vleading_power(x), last = vpower_of_two(-digits);
    const V step = vmax(leading * last, smallest);
    const V below = select(size == leading, vmax(step * V(0.5), smallest), step);
    const V largest = (V(2) - last) * (V(2) / (smallest * vpower_of_two(digits)));
    const V grows = select(x < V(0), one_if<V>(other < x), one_if<V>(other > x));
    const V moved = select(grows == V(1), size + step,
                           select(size == V(HUGE_VAL), largest, size - below));
    const V y = select(x == V(0), vcopysign(smallest, other), vcopysign(moved, x));
    return select((x != x) || (other != other), x + other, select(x == other, other, y));
  }
};

// Complex numbers.
struct Conj {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    return vconj(x);
  }
  template <class V>
  static MOONLET_FN V of_pairs(V x) {
    return even_and_odd(x, -x);
  }
};
struct JoinParts {
  template <class V>
  MOONLET_FN V operator()(V x, V y) const {
    return V(real_part(x), real_part(y));
  }
  template <class V>
  static MOONLET_FN V of_pairs(V x, V y) {
    return even_and_odd(x, even_twice(y));
  }
  static constexpr bool kInterleaves = true;
};
struct Angle {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    if constexpr (is_complex_value<V>)
      return vangle(x);
    else
      return select(x < V(0), V(3.14159265358979323846), select(x != x, x, V(0)));
  }
  template <class V>
  static MOONLET_FN V of_parts(V real, V imaginary) {
    return vatan2(imaginary, real);
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
struct IsNear {
  template <class V>
  MOONLET_FN V operator()(V x, V y, V rtol, V atol) const {
    const V distance = vabs(x - y);
    const V limit = vabs(rtol * y) + atol;
    return one_if<V>((x == y) || (distance <= limit && distance < V(HUGE_VAL)));
  }
};
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
// In the last bin where the range is empty or unbounded, so that the quotient is no number.
struct HistogramPosition {
  template <class V>
  MOONLET_FN V operator()(V x, V low, V high, V bins) const {
    const V last = bins + V(1), at = vfloor((x - low) * bins / (high - low)) + V(2);
    return select((x >= low) && (x <= high), select(at <= last, at, last), V(1));
  }
};
MOONLET_FUNCTOR2(Heaviside, x, value, select(x == V(0), value, one_if<V>(x > V(0))))
MOONLET_FUNCTOR3(Where, mask, x, y, select(mask != V(0), x, y))
MOONLET_FUNCTOR3(MaskedFill, x, mask, value, select(mask != V(0), value, x))

// Activations.
MOONLET_FUNCTOR1(Relu, select(x <= V(0), V(0), x))
MOONLET_FUNCTOR2(ReluGradX, grad, y, select(y <= V(0), V(0), grad))
MOONLET_FUNCTOR1(Relu6, select(x <= V(0), V(0), select(x > V(6), V(6), x)))
MOONLET_FUNCTOR2(LeakyRelu, x, gradient, select(x <= V(0), x * gradient, x))
MOONLET_FUNCTOR3(LeakyReluGradX, grad, x, gradient, select(x > V(0), grad, grad * gradient))
MOONLET_FUNCTOR2(PreluBy, x, gradient, select(x > V(0), x, x * gradient))
MOONLET_FUNCTOR3(PreluByGradX, grad, x, gradient, select(x > V(0), grad, grad * gradient))
MOONLET_FUNCTOR2(Elu, x, alpha, select(x <= V(0), alpha * vexpm1(x), x))
MOONLET_FUNCTOR3(EluGradX, grad, x, alpha,
                 select(x > V(0), grad, grad * alpha * vexp(x)))
MOONLET_FUNCTOR2(Celu, x, alpha, select(x <= V(0), alpha * vexpm1(x / alpha), x))
MOONLET_FUNCTOR3(CeluGradX, grad, x, alpha,
                 select(x > V(0), grad, grad * vexp(x / alpha)))
MOONLET_FUNCTOR1(Selu, V(1.0507009873554804934193349852946) *
                           select(x <= V(0), V(1.6732632423543772848170429916717) * vexpm1(x), x))
MOONLET_FUNCTOR2(SeluGradX, grad, x,
                 grad * select(x > V(0), V(1.0507009873554804934193349852946),
                               V(1.7580993408473766) * vexp(x)))
MOONLET_FUNCTOR1(Sigmoid, sigmoid_of(x))
MOONLET_FUNCTOR2(SigmoidGradX, grad, y, grad * vconj((V(1) - y) * y))
MOONLET_FUNCTOR1(Logsigmoid, vmin(x, V(0)) - vlog1p_unit(vexp(-vabs(x))))
MOONLET_FUNCTOR2(LogsigmoidGradX, grad, x, grad / (V(1) + vexp(x)))
struct TanhshrinkGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    const V t = vtanh(x);
    return grad * t * t;
  }
};
MOONLET_FUNCTOR1(GeluErf, x * vnormal_cdf(x))
MOONLET_FUNCTOR1(GeluTanh, V(0.5) * x * (V(1) + vtanh(V(0.79788456080286535588) *
                                                      (x + V(0.044715) * x * x * x))))
struct GeluErfGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    return grad * (vnormal_cdf(x) + x * vexp(V(-0.5) * x * x) * V(0.39894228040143267794));
  }
};
struct GeluTanhGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    const V scale = V(0.79788456080286535588), square = x * x;
    const V t = vtanh(scale * x * (V(1) + V(0.044715) * square));
    const V inner_grad = x * (V(1) - t * t) * scale * (V(1) + V(0.134145) * square);
    return V(0.5) * grad * (V(1) + t + inner_grad);
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
// tanh(log(1 + e)) is n / (n + 2) for n = e (e + 2); from 20 on it is 1 in either format.
struct Mish {
  template <class V>
  MOONLET_FN V operator()(V x) const {
    const V e = vexp(vmin(x, V(20))), n = e * (e + V(2));
    return x * select(x > V(20), V(1), n / (n + V(2)));
  }
};
struct MishGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x) const {
    const V e = vexp(vmin(x, V(20))), n = e * (e + V(2)), inverse = V(1) / (n + V(2));
    const V gradient = n * inverse + x * (V(4) * e * (V(1) + e)) * inverse * inverse;
    return grad * select(x > V(20), V(1), gradient);
  }
};
MOONLET_FUNCTOR3(Softplus, x, beta, threshold,
                 select(x * beta > threshold, x, softplus_of(x * beta) / beta))
MOONLET_FUNCTOR4(SoftplusGradX, grad, x, beta, threshold,
                 select(x * beta > threshold, grad, grad * sigmoid_of(x * beta)))
MOONLET_FUNCTOR3(Hardtanh, x, low, high, select(x < low, low, select(x > high, high, x)))
MOONLET_FUNCTOR4(HardtanhGradX, grad, x, low, high, select((x > low) && (x < high), grad, V(0)))
MOONLET_FUNCTOR1(Hardsigmoid, select(x <= V(-3), V(0), select(x >= V(3), V(1), x / V(6) + V(0.5))))
MOONLET_FUNCTOR2(HardsigmoidGradX, grad, x, select((x > V(-3)) && (x < V(3)), grad / V(6), V(0)))
// Minus infinity times the gradient 0 is not a number.
MOONLET_FUNCTOR1(Hardswish, select(x >= V(3), x, x * vmax(x + V(3), V(0)) / V(6)))
MOONLET_FUNCTOR2(HardswishGradX, grad, x,
                 select(x >= V(3), grad, select(x <= V(-3), V(0), grad * (x / V(3) + V(0.5)))))
MOONLET_FUNCTOR2(Hardshrink, x, lambd, select(vabs(x) <= lambd, V(0), x))
MOONLET_FUNCTOR3(HardshrinkGradX, grad, x, lambd,
                 select((x > lambd) || (x < -lambd), grad, V(0)))
// Nothing between the bounds, but NaN stays what it is.
MOONLET_FUNCTOR2(SoftshrinkBy, x, lambd,
                 select(x > lambd, x - lambd, select(x < -lambd, x + lambd, x * V(0))))
MOONLET_FUNCTOR1(Tanhshrink, x - vtanh(x))
MOONLET_FUNCTOR1(Softsign, x / (V(1) + vabs(x)))
MOONLET_FUNCTOR3(Threshold, x, threshold, value, select(x <= threshold, value, x))
MOONLET_FUNCTOR3(ThresholdGradX, grad, x, threshold, select(x <= threshold, V(0), grad))

// What each element adds to a loss, and the gradients of that.
MOONLET_FUNCTOR2(MseLossEach, x, target, (x - target) * (x - target))
MOONLET_FUNCTOR3(MseLossEachGradX, grad, x, target, grad * (V(2) * (x - target)))
MOONLET_FUNCTOR2(L1LossEach, x, target, vabs(x - target))
MOONLET_FUNCTOR3(L1LossEachGradX, grad, x, target, grad * Sign()(x - target))
struct SmoothL1LossEach {
  template <class V>
  MOONLET_FN V operator()(V x, V target, V beta) const {
    const V d = vabs(x - target);
    return select(d < beta, d * d * V(0.5) / beta, d - V(0.5) * beta);
  }
};
struct SmoothL1LossEachGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x, V target, V beta) const {
    const V d = x - target;
    return grad * select(d <= -beta, V(-1), select(d >= beta, V(1), d / beta));
  }
};
struct HuberLossEach {
  template <class V>
  MOONLET_FN V operator()(V x, V target, V delta) const {
    const V d = vabs(x - target);
    return select(d < delta, d * d * V(0.5), delta * (d - V(0.5) * delta));
  }
};
struct HuberLossEachGradX {
  template <class V>
  MOONLET_FN V operator()(V grad, V x, V target, V delta) const {
    const V d = x - target;
    return grad * select(d <= -delta, -delta, select(d >= delta, delta, d));
  }
};
// Logarithms are not below -100, and no gradient is divided by less than 1e-12.
MOONLET_FUNCTOR2(BinaryCrossEntropyEach, x, target,
                 -(target * vmax(vlog(x), V(-100)) +
                   (V(1) - target) * vmax(vlog1p(-x), V(-100))))
MOONLET_FUNCTOR3(BinaryCrossEntropyEachGradX, grad, x, target,
                 grad * ((x - target) / vmax((V(1) - x) * x, V(1e-12))))
MOONLET_FUNCTOR2(BinaryCrossEntropyEachGradTarget, grad, x,
                 grad * (vlog1p(-x) - vlog(x)))
// (1 - target) x - log(sigmoid(x)).
MOONLET_FUNCTOR2(BinaryCrossEntropyWithLogitsEach, x, target,
                 (V(1) - target) * x - (vmin(x, V(0)) - vlog1p_unit(vexp(-vabs(x)))))
MOONLET_FUNCTOR3(BinaryCrossEntropyWithLogitsEachGradX, grad, x, target, grad * (sigmoid_of(x) - target))
// The summand is 0 where the target is.
struct KlDivEach {
  template <class V>
  MOONLET_FN V operator()(V x, V target) const {
    return target * vlog(select(target > V(0), target, V(1))) - target * x;
  }
};
MOONLET_FUNCTOR2(SoftMarginLossEach, x, target, softplus_of(-(target * x)))
MOONLET_FUNCTOR3(SoftMarginLossEachGradX, grad, x, target,
                 grad * (-target * sigmoid_of(-(target * x))))
MOONLET_FUNCTOR2(PoissonNllLossEach, x, target, vexp(x) - target * x)
MOONLET_FUNCTOR3(PoissonNllLossEachGradX, grad, x, target, grad * (vexp(x) - target))

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
