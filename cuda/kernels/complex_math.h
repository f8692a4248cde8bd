// cuda/kernels/complex_math.h: the functions of the functors' vocabulary for device complex
// numbers, on libcu++'s complex under nvcc and the C++ library's in the emulation.
#pragma once

#include <cuda_runtime.h>  // it tells functor_math.h that device code follows

#include "cuda/kernels/complex.h"
#include "tensor/functors/functor_math.h"

#ifdef __CUDACC__
#include <cuda/std/complex>
#else
#include <cmath>
#endif

namespace moonlet::fn {
template <class T>
inline constexpr bool is_complex_value<cuda::Complex<T>> = true;
}  // namespace moonlet::fn

namespace moonlet::cuda {

template <class T>
MOONLET_HD T real_part(Complex<T> z) {
  return z.re;
}
template <class T>
MOONLET_HD T imag_part(Complex<T> z) {
  return z.im;
}

#ifdef __CUDACC__
namespace complex_library = ::cuda::std;
#else
namespace complex_library = ::std;
#endif

template <class T>
MOONLET_HD complex_library::complex<T> to_library(Complex<T> x) {
  return complex_library::complex<T>(x.re, x.im);
}
template <class T>
MOONLET_HD Complex<T> from_library(complex_library::complex<T> x) {
  return Complex<T>(x.real(), x.imag());
}

#define MOONLET_COMPLEX_FUNCTION(name, function)                   \
  template <class T>                                               \
  MOONLET_HD Complex<T> name(Complex<T> x) {                       \
    return from_library(complex_library::function(to_library(x))); \
  }
MOONLET_COMPLEX_FUNCTION(vsqrt, sqrt)
MOONLET_COMPLEX_FUNCTION(vexp, exp)
MOONLET_COMPLEX_FUNCTION(vlog, log)
MOONLET_COMPLEX_FUNCTION(vsin, sin)
MOONLET_COMPLEX_FUNCTION(vcos, cos)
MOONLET_COMPLEX_FUNCTION(vtan, tan)
MOONLET_COMPLEX_FUNCTION(vasin, asin)
MOONLET_COMPLEX_FUNCTION(vacos, acos)
MOONLET_COMPLEX_FUNCTION(vatan, atan)
MOONLET_COMPLEX_FUNCTION(vsinh, sinh)
MOONLET_COMPLEX_FUNCTION(vcosh, cosh)
MOONLET_COMPLEX_FUNCTION(vtanh, tanh)
MOONLET_COMPLEX_FUNCTION(vasinh, asinh)
MOONLET_COMPLEX_FUNCTION(vacosh, acosh)
MOONLET_COMPLEX_FUNCTION(vatanh, atanh)
#undef MOONLET_COMPLEX_FUNCTION

template <class T>
MOONLET_HD Complex<T> vlog2(Complex<T> x) {
  return vlog(x) / Complex<T>(0.693147180559945309417);
}
template <class T>
MOONLET_HD Complex<T> vlog10(Complex<T> x) {
  return vlog(x) / Complex<T>(2.30258509299404568402);
}
template <class T>
MOONLET_HD Complex<T> vexp2(Complex<T> x) {
  const T factor = static_cast<T>(0.693147180559945309417);
  return vexp(Complex<T>(x.re * factor, x.im * factor));
}
template <class T>
MOONLET_HD Complex<T> vabs(Complex<T> x) {
  return Complex<T>(complex_library::abs(to_library(x)));
}
template <class T>
MOONLET_HD Complex<T> vangle(Complex<T> x) {
  return Complex<T>(complex_library::arg(to_library(x)));
}
template <class T>
MOONLET_HD Complex<T> vconj(Complex<T> x) {
  return {x.re, -x.im};
}
template <class T>
MOONLET_HD Complex<T> vpow(Complex<T> x, Complex<T> y) {
  if (y == Complex<T>(0)) return Complex<T>(1);
  if (x == Complex<T>(0)) return Complex<T>(0);
  return vexp(y * vlog(x));
}

}  // namespace moonlet::cuda
