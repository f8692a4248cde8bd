// cuda/kernels/loss_classes.cuh: scores of classes and the positions that targets choose among
// them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// What scores are of, as (outer, classes, inner); the targets as (outer, inner), counted as I.
template <class I>
struct Classes {
  int64_t classes, inner;
  I count;
  Divisor<I> by_inner;
  int64_t ignore;
  Reporter reporter;
  // The class that counts for a target: none, 0, where it is ignored or reported as wrong.
  __device__ __forceinline__ int64_t wanted(int64_t target) const {
    if (target == ignore) return 0;
    if (target >= 1 && target <= classes) return target;
    report(reporter, target, classes);
    return 0;
  }
  __device__ __forceinline__ int64_t position(int64_t i, int64_t target) const {
    I rest = static_cast<I>(i);
    const int64_t outer = by_inner.split(rest);
    return (outer * classes + target - 1) * inner + rest;
  }
};

template <class I>
Classes<I> classes_of(const Call& call, const Dims& size, int64_t count, int64_t ignore) {
  int64_t inner = 1;
  for (int i = 2; i < size.size(); ++i) inner *= size[i];
  return {size[size.size() == 1 ? 0 : 1],
          inner,
          static_cast<I>(count),
          Divisor<I>(std::max<int64_t>(inner, 1)),
          ignore,
          reporter(call.device().index, call.op(), Fault::Target)};
}

// Calls f.template operator()<C, I, Source>() with the type C that elements of a dtype are computed
// in, the type that so many targets and as many positions are counted in, and the accessor of
// elements.
template <class F>
void visit_losses(DType t, int64_t count, F&& f) {
  if (count < kDividerLimit)
    return visit_float_types(
        t, [&]<class T>() { f.template operator()<Computed<T>, int32_t, Typed<T>>(); });
  visit_device_compute<dtypes::floating>(
      t, [&]<class C>() { f.template operator()<C, int64_t, Array>(); });
}
template <class Source>
Source elements_of(const Tensor& x) {
  if constexpr (std::is_same_v<Source, Array>)
    return array(x);
  else
    return {reinterpret_cast<decltype(Source::data)>(x.raw())};
}

}  // namespace moonlet::cuda
