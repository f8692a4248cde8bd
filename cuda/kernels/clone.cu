// cuda/kernels/clone.cu: copies in memory of their own.
#include "tensor/kernels_clone.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cuda {

void clone(const Tensor& x, std::optional<MemoryFormat>, Tensor& y) { copy(y, x); }

}  // namespace moonlet::cuda
