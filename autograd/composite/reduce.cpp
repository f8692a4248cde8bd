// autograd/composite/reduce.cpp: reductions and sorts made of other ops.
#include "autograd/ops.h"

namespace moonlet {

Tensor max(const Tensor& x) { return amax(x); }
Tensor min(const Tensor& x) { return amin(x); }

Tensor std(const Tensor& x, const Dims& dim, int64_t correction, bool keepdim) {
  return sqrt(var(x, dim, correction, keepdim));
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending, bool stable) {
  return std::get<1>(sort(x, dim, descending, stable));
}

}  // namespace moonlet
