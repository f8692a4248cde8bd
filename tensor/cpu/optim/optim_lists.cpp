// tensor/cpu/optim/optim_lists.cpp: the norm of many tensors, their clipping and their division by
// a loss's scale on the CPU: the ops on each of them; also how that scale changes.
#include <cmath>

#include "tensor/core/views.h"
#include "tensor/cpu/optim/optim.h"
#include "tensor/functors/optim_number.h"
#include "tensor/kernels_optim.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_reduce.h"

namespace moonlet::cpu {

using TensorList = std::vector<Tensor>;

namespace {
Dims all_dims(const Tensor& x) {
  Dims out;
  for (int d = 0; d < x.dim(); ++d) out.push_back(d);
  return out;
}
}  // namespace

// The norm of the tensors' norms.
void list_norm(const TensorList& x, double p, Tensor& y) {
  const Tensor norms = empty_plain({static_cast<int64_t>(x.size())}, options_of(y), "list_norm");
  for (size_t i = 0; i < x.size(); ++i) {
    Tensor to = views::select(norms, 0, static_cast<int64_t>(i));
    raw::norm_out(to, x[i], p, all_dims(x[i]), false, std::nullopt);
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

void list_unscale(const TensorList& x, const TensorList& found_inf, const Tensor& scale) {
  const Scalar factor(static_cast<float>(1.0 / double{*scale.elements<float>()}));
  bool finite = true;
  for (Tensor each : x) {
    if (each.numel() == 0) continue;
    const auto [least, most] = raw::aminmax(each, all_dims(each), false);
    finite = finite && std::isfinite(number_in(least)) && std::isfinite(number_in(most));
    raw::mul_(each, factor);
  }
  if (!finite) *found_inf[0].elements<float>() = 1;
}

void update_loss_scale(const TensorList& scale, const TensorList& growth_tracker,
                       const Tensor& found_inf, double growth_factor, double backoff_factor,
                       int64_t growth_interval) {
  optim::update_loss_scale(*scale[0].elements<float>(), *growth_tracker[0].elements<int32_t>(),
                           *found_inf.elements<float>(), growth_factor, backoff_factor,
                           growth_interval);
}

}  // namespace moonlet::cpu
