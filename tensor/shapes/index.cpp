// tensor/shapes/index.cpp: the geometry of advanced indexing, argument checks and result shapes.
#include "tensor/shapes/index.h"

#include "tensor/shapes_index.h"

namespace moonlet::shapes {

static void check_positions(const char* op, const Tensor& x, const Tensor& index) {
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op, ": positions are ",
        index.dtype(), "; int64 or int32 expected");
  check(index.device() == x.device(), op, ": positions are on ", name(index.device()),
        ", the tensor is on ", name(x.device()));
}

void fail_position(const char* op, int64_t at, int64_t size) {
  if (at == 0) fail(op, ": position 0: positions start at 1");
  fail(op, ": position ", at, " is out of range for size ", size);
}

IndexPlan plan_index(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  const int given = static_cast<int>(indices.size());
  check(given <= x.dim(), op, ": ", given, " indices for a tensor of shape ", x.sizes());
  IndexPlan plan;
  int first = -1, last = -1;
  for (int d = 0; d < given; ++d) {
    if (!indices[d].defined()) continue;
    check_positions(op, x, indices[d]);
    plan.index_sizes = plan.indices.empty() ? indices[d].sizes()
                                            : broadcast(plan.index_sizes, indices[d].sizes(), op);
    plan.indices.push_back(indices[d]);
    plan.indexed_sizes.push_back(x.size(d));
    plan.indexed_strides.push_back(x.stride(d));
    if (first < 0) first = d;
    last = d;
  }
  const bool together = last - first + 1 == plan.indexed_sizes.size();
  plan.index_at = together && first > 0 ? first : 0;
  const auto put_indexed = [&] {
    for (int64_t size : plan.index_sizes) {
      plan.result.push_back(size);
      plan.base_strides.push_back(0);
    }
  };
  for (int d = 0, kept = 0; d <= x.dim(); ++d) {
    if (kept == plan.index_at && plan.result.size() == kept) {
      put_indexed();
      kept = -1;
    }
    if (d == x.dim()) break;
    if (d < given && indices[d].defined()) continue;
    plan.result.push_back(x.size(d));
    plan.base_strides.push_back(x.stride(d));
    if (kept >= 0) ++kept;
  }
  return plan;
}

void nonzero(const Tensor&) {}

Result index(const Tensor& x, const std::vector<Tensor>& indices) {
  const IndexPlan plan = plan_index("index", x, indices);
  // x decides the order of its dimensions in memory, the index tensors that of theirs.
  std::vector<Dims> strides = {plan.base_strides};
  for (const Tensor& positions : plan.indices) {
    const Dims own = broadcast_strides(positions.sizes(), positions.strides(), plan.index_sizes);
    strides.push_back(Dims::filled(plan.result.size(), 0));
    for (int d = 0; d < own.size(); ++d) strides.back()[plan.index_at + d] = own[d];
  }
  return {plan.result, options_of(x),
          followed_strides(plan.result, strides.data(), static_cast<int>(strides.size()))};
}

void index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool) {
  const IndexPlan plan = plan_index("index_put", x, indices);
  check(can_expand(values.sizes(), plan.result), "index_put: values of shape ", values.sizes(),
        " do not broadcast to ", plan.result);
}

bool searches_right(bool right, const std::optional<std::string>& side) {
  if (!side) return right;
  check(*side == "left" || *side == "right", "searchsorted: side is \"left\" or \"right\", got \"",
        *side, "\"");
  check(!right || *side == "right", "searchsorted: right = true and side = \"left\" contradict");
  return *side == "right";
}

Result searchsorted(const Tensor& sequence, const Tensor& x, bool out_int32, bool right,
                    const std::optional<std::string>& side, const Tensor& sorter) {
  constexpr const char* op = "searchsorted";
  searches_right(right, side);
  check(sequence.dim() > 0, op, ": the sequence has shape (); at least one dimension expected");
  check((dtypes::real & bit(x.dtype())) != 0, op, ": the values are ", x.dtype(),
        ", and real numbers are expected");
  bool fits = sequence.dim() == 1 || sequence.dim() == x.dim();
  for (int d = 0; fits && sequence.dim() > 1 && d + 1 < x.dim(); ++d)
    fits = sequence.size(d) == x.size(d);
  check(fits, op, ": the sequence has shape ", sequence.sizes(), ", the values ", x.sizes(),
        "; all but the last dimension must agree, or the sequence have one");
  if (sorter.defined()) {
    check_positions(op, sequence, sorter);
    check_shape(op, "sorter", sorter.sizes(), sequence.sizes());
  }
  return {x.sizes(), {out_int32 ? DType::Int32 : DType::Int64, x.device()}};
}

}  // namespace moonlet::shapes
