// cuda/kernels/complex.h: a complex number for device code, laid out as std::complex, whose
// operators no device can call; arithmetic only. The functions of the functors' vocabulary are in
// complex_math.h.
#pragma once

#include <complex>
#include <type_traits>

#include "tensor/core/half.h"

namespace moonlet::cuda {

template <class T>
struct alignas(2 * sizeof(T)) Complex {
  using Part = T;
  T re, im;
  Complex() = default;
  MOONLET_HD Complex(T real, T imag) : re(real), im(imag) {}
  template <class Real, class = std::enable_if_t<std::is_arithmetic_v<Real>>>
  MOONLET_HD Complex(Real real) : re(static_cast<T>(real)), im(0) {}

  MOONLET_HD Complex& operator+=(Complex o) { return *this = Complex(re + o.re, im + o.im); }
};

template <class T>
MOONLET_HD Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
MOONLET_HD Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
MOONLET_HD Complex<T> operator-(Complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
MOONLET_HD Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// Smith's division (1962), which does not overflow where the quotient fits.
template <class T>
MOONLET_HD Complex<T> operator/(Complex<T> a, Complex<T> b) {
  const T x = b.re < T(0) ? -b.re : b.re, y = b.im < T(0) ? -b.im : b.im;
  if (x >= y) {
    if (x == T(0) && y == T(0)) return {a.re / x, a.im / x};
    const T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const T ratio = b.re / b.im, scale = T(1) / (b.re * ratio + b.im);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}
template <class T>
MOONLET_HD bool operator==(Complex<T> a, Complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
template <class T>
MOONLET_HD bool operator!=(Complex<T> a, Complex<T> b) {
  return !(a == b);
}

template <class T>
inline constexpr bool is_device_complex = false;
template <class T>
inline constexpr bool is_device_complex<Complex<T>> = true;

// The type that device code uses for a dtype's C++ type.
template <class T>
struct OnDevice {
  using type = T;
};
template <class T>
struct OnDevice<std::complex<T>> {
  using type = Complex<T>;
};
template <class T>
using device_t = typename OnDevice<T>::type;

}  // namespace moonlet::cuda
