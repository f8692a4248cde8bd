// cuda/kernels/common/online_softmax.cuh: the largest of some numbers and the sum of e^(x -
// largest), found in one pass over them (Milakov and Gimelshein, 2018).
#pragma once

#include "cuda/kernels/common/floats.cuh"

namespace moonlet::cuda {

template <class C>
struct Online {
  C largest, sum;
  __device__ static Online none() { return {C(-HUGE_VAL), C(0)}; }
};
struct JoinOnline {
  template <class C>
  __device__ Online<C> operator()(const Online<C>& a, const Online<C>& b) const {
    const C m = larger(a.largest, b.largest), base = base_of(m);
    return {m, a.sum * fn::vexp(a.largest - base) + b.sum * fn::vexp(b.largest - base)};
  }
};

// Takes more numbers of results of type T: `each(f)` calls f(number) with all of them, in order.
template <class T, class Each>
__device__ __forceinline__ void take_online(Online<Computed<T>>& all, const Each& each) {
  using C = Computed<T>;
  C largest = all.largest, sum = C(0);
  each([&](C v) { largest = larger(largest, v); });
  const C base = base_of(largest);
  each([&](C v) { sum += exp_for<T>(v - base); });
  all = {largest, all.sum * exp_for<T>(all.largest - base) + sum};
}

}  // namespace moonlet::cuda
