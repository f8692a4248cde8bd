// autograd/composite/sort.cpp: the order without the values.
#include "autograd/uses_composite_sort.h"

namespace moonlet {

Tensor argsort_composite(const Tensor& x, int64_t dim, bool descending, bool stable) {
  return std::get<1>(sort(x, dim, descending, stable));
}

}  // namespace moonlet
