// cuda/kernels/linalg/decomposition_kernels.cuh: the types and small kernels that factorizations
// share.
#pragma once

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/complex_math.h"
#include "cuda/kernels/linalg/decomposition.h"

namespace moonlet::cuda {

// f<T>() for the device's type of a dtype that is computed in.
template <class F>
void visit_lapack(DType dtype, F&& f) {
  visit<bit(DType::Float32) | bit(DType::Float64) | dtypes::complex>(
      dtype, [&]<class T>() { f.template operator()<device_t<T>>(); });
}

template <class T>
struct PartOf {
  using type = T;
};
template <class T>
struct PartOf<Complex<T>> {
  using type = T;
};
// The real type of T's parts.
template <class T>
using part_t = typename PartOf<T>::type;

template <class T>
__device__ T conjugate(T x) {
  return x;
}
template <class T>
__device__ Complex<T> conjugate(Complex<T> x) {
  return {x.re, -x.im};
}

}  // namespace moonlet::cuda
