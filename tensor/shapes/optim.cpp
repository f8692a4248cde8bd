// tensor/shapes/optim.cpp: argument checks of the optimisers' steps.
#include "tensor/shapes_optim.h"

namespace moonlet::shapes {

static void same_shape(const char* op, const char* what, const Tensor& x, const Tensor& other) {
  if (!other.defined()) return;
  check(other.sizes() == x.sizes(), op, ": ", what, " has shape ", other.sizes(),
        ", the parameter ", x.sizes());
}

void sgd_step(const Tensor& x, const Tensor& gradient, const Tensor& momentum_buffer, double,
              double momentum, double, double, bool, bool) {
  same_shape("sgd_step", "the gradient", x, gradient);
  check(momentum == 0 || momentum_buffer.defined(), "sgd_step: momentum wants a momentum_buffer");
  same_shape("sgd_step", "momentum_buffer", x, momentum_buffer);
}

void adam_step(const Tensor& x, const Tensor& gradient, const Tensor& exp_avg,
               const Tensor& exp_avg_sq, const Tensor& max_exp_avg_sq, int64_t step, double, double,
               double, double, double, bool) {
  check(step >= 1, "adam_step: steps count from 1, got ", step);
  same_shape("adam_step", "the gradient", x, gradient);
  same_shape("adam_step", "exp_avg", x, exp_avg);
  same_shape("adam_step", "exp_avg_sq", x, exp_avg_sq);
  same_shape("adam_step", "max_exp_avg_sq", x, max_exp_avg_sq);
}

}  // namespace moonlet::shapes
