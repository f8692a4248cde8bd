// autograd/composite/index.cpp: choices by a mask.
#include "autograd/uses_composite_index.h"

namespace moonlet {

Tensor masked_select_composite(const Tensor& x, const Tensor& mask) {
  const Dims sizes = broadcast(x.sizes(), mask.sizes(), "masked_select");
  const int64_t count = numel_of(sizes, "masked_select");
  const Tensor found = nonzero(reshape(expand(mask, sizes), Dims{count}));
  return index_select(reshape(expand(x, sizes), Dims{count}), 0,
                      reshape(found, Dims{found.size(0)}));
}

}  // namespace moonlet
