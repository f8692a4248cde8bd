// tensor/pointwise/plan.cpp: lays out the operands of a pointwise call over collapsed dimensions.
#include "tensor/pointwise/plan.h"

#include "tensor/core/geometry.h"

namespace moonlet {

namespace {

// Every tensor contiguous and of out's shape: one dimension does, and the flags are plain.
bool try_flat(PointwisePlan& plan, const Tensor& out, const Tensor* const* tensors) {
  if (!out.is_contiguous()) return false;
  plan.direct = plan.out.dtype == plan.compute;
  for (int i = 0; i < plan.inputs; ++i) {
    const Tensor* x = tensors[i];
    if (!x) {
      plan.direct = false;
      continue;
    }
    if (!(x->is_same(out) || (x->is_contiguous() && x->sizes() == out.sizes()))) return false;
    plan.direct = plan.direct && plan.in[i].dtype == plan.compute;
    plan.in[i].strides[0] = static_cast<int64_t>(size_of(plan.in[i].dtype));
  }
  plan.flat = true;
  plan.ndim = 1;
  plan.sizes[0] = plan.numel;
  plan.out.strides[0] = static_cast<int64_t>(size_of(plan.out.dtype));
  return true;
}

// Calls f on the out operand and every tensor input.
template <class F>
void each_operand(PointwisePlan& plan, F&& f) {
  f(plan.out);
  for (int i = 0; i < plan.inputs; ++i)
    if (!plan.in[i].scalar) f(plan.in[i]);
}

// All dimensions, innermost first, with the strides of each operand in bytes.
void spread(PointwisePlan& plan, const Tensor& out, const Tensor* const* tensors) {
  const int rank = out.dim();
  plan.ndim = rank;
  const auto fill = [&](PointwiseArg& arg, const Tensor& x) {
    const auto bytes = static_cast<int64_t>(size_of(arg.dtype));
    for (int d = 0; d < rank; ++d) {
      const int from_end = x.dim() - 1 - d;
      const bool there = from_end >= 0 && x.size(from_end) != 1;
      arg.strides[d] = there ? x.stride(from_end) * bytes : 0;
    }
  };
  for (int d = 0; d < rank; ++d) plan.sizes[d] = out.size(rank - 1 - d);
  fill(plan.out, out);
  for (int i = 0; i < plan.inputs; ++i)
    if (tensors[i]) fill(plan.in[i], *tensors[i]);
}

void set_flags(PointwisePlan& plan) {
  plan.flat = plan.ndim == 1;
  bool same = true;
  bool has_number = false;
  for (int i = 0; i < plan.inputs; ++i) has_number = has_number || plan.in[i].scalar;
  each_operand(plan, [&](PointwiseArg& arg) {
    plan.flat = plan.flat && arg.strides[0] == static_cast<int64_t>(size_of(arg.dtype));
    same = same && arg.dtype == plan.compute;
  });
  plan.direct = plan.flat && same && !has_number;
}

}  // namespace

void plan_layout(PointwisePlan& plan, const Tensor& out, const Tensor* const* tensors) {
  if (try_flat(plan, out, tensors)) return;
  spread(plan, out, tensors);
  plan.ndim = collapse_sorted_dims<Innermost::First>(plan.ndim, plan.sizes, [&](auto&& f) {
    each_operand(plan, [&](PointwiseArg& arg) { f(arg.strides); });
  });
  if (plan.ndim == 0) {
    plan.ndim = 1;
    plan.sizes[0] = 1;
    each_operand(plan, [&](PointwiseArg& arg) {
      arg.strides[0] = static_cast<int64_t>(size_of(arg.dtype));
    });
  }
  set_flags(plan);
}

}  // namespace moonlet
