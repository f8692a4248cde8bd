// tensor/pointwise/plan.cpp: collapses the dimensions of a pointwise call.
#include "tensor/pointwise/plan.h"

#include <algorithm>
#include <utility>

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

void move_dim(PointwisePlan& plan, int from, int to) {
  plan.sizes[to] = plan.sizes[from];
  each_operand(plan, [&](PointwiseArg& arg) { arg.strides[to] = arg.strides[from]; });
}

void drop_ones(PointwisePlan& plan) {
  int kept = 0;
  for (int d = 0; d < plan.ndim; ++d)
    if (plan.sizes[d] != 1) move_dim(plan, d, kept++);
  plan.ndim = kept;
}

// Whether dimension a should lie outside b: by the first operand, out first, that has strides in
// both and they differ.
bool is_outer(PointwisePlan& plan, int a, int b) {
  int verdict = 0;
  each_operand(plan, [&](PointwiseArg& arg) {
    if (verdict != 0 || arg.strides[a] == 0 || arg.strides[b] == 0) return;
    if (arg.strides[a] != arg.strides[b]) verdict = arg.strides[a] > arg.strides[b] ? 1 : -1;
  });
  return verdict > 0;
}

void sort_dims(PointwisePlan& plan) {
  for (int i = 1; i < plan.ndim; ++i) {
    for (int d = i; d > 0 && is_outer(plan, d - 1, d); --d) {
      std::swap(plan.sizes[d - 1], plan.sizes[d]);
      each_operand(plan, [&](PointwiseArg& arg) { std::swap(arg.strides[d - 1], arg.strides[d]); });
    }
  }
}

void merge_dims(PointwisePlan& plan) {
  int last = 0;
  for (int d = 1; d < plan.ndim; ++d) {
    bool joins = true;
    each_operand(plan, [&](PointwiseArg& arg) {
      joins = joins && arg.strides[d] == arg.strides[last] * plan.sizes[last];
    });
    if (joins)
      plan.sizes[last] *= plan.sizes[d];
    else
      move_dim(plan, d, ++last);
  }
  if (plan.ndim > 0) plan.ndim = last + 1;
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
  drop_ones(plan);
  sort_dims(plan);
  merge_dims(plan);
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
