// tensor/cpu/optim/optim_lists.cpp: the norm of many tensors and their clipping on the CPU: the ops
// on each of them.
#include "tensor/core/views.h"
#include "tensor/kernels_optim.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_reduce.h"

namespace moonlet::cpu {

using TensorList = std::vector<Tensor>;

// The norm of the tensors' norms.
void list_norm(const TensorList& x, double p, Tensor& y) {
  const Tensor norms = empty_plain({static_cast<int64_t>(x.size())}, options_of(y), "list_norm");
  for (size_t i = 0; i < x.size(); ++i) {
    Tensor to = views::select(norms, 0, static_cast<int64_t>(i));
    Dims all;
    for (int d = 0; d < x[i].dim(); ++d) all.push_back(d);
    raw::norm_out(to, x[i], p, all, false, std::nullopt);
  }
  raw::norm_out(y, norms, p, {0}, false, std::nullopt);
}

void list_limit_norm(const TensorList& x, const Tensor& norm, double max_norm) {
  const Tensor scale =
      raw::clamp_max(raw::div(Scalar(max_norm), raw::add(norm, Scalar(1e-6))), Scalar(1));
  for (Tensor each : x) raw::mul_(each, scale);
}

void list_clamp(const TensorList& x, double min, double max) {
  for (Tensor each : x) raw::clamp_between_(each, Scalar(min), Scalar(max));
}

}  // namespace moonlet::cpu
