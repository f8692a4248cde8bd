// cuda/kernels/pointwise.cu: whether the operands of a pointwise call lie in packs, and the grid of
// those.
#include "cuda/kernels/common/pointwise.cuh"

namespace moonlet::cuda {

namespace {

// Operand t of `g` made of elements of `bytes`: false where its elements lie otherwise.
bool add_operand(const PointwisePlan& plan, const PointwiseArg& arg, int t, int bytes, int count,
                 PackedGrid& g) {
  const bool is_result = t == plan.inputs;
  for (int d = 1; d < plan.ndim; ++d) g.strides[t][d - 1] = arg.scalar ? 0 : arg.strides[d];
  g.data[t] = arg.scalar ? nullptr : arg.data;
  g.code[t] = arg.scalar ? Code::kPlain : code_of(arg.dtype);
  if (arg.scalar) {
    g.mode[t] = PackedGrid::kNumber;
    return plan.inputs > 1;
  }
  if (static_cast<int>(size_of(arg.dtype)) != bytes) return false;
  if (arg.strides[0] == 0 && !is_result && plan.numel > 1) {
    g.mode[t] = PackedGrid::kConstant;
    return true;
  }
  if (!is_result) g.mode[t] = PackedGrid::kDense;
  const int64_t pack = int64_t{bytes} * count;
  bool fits = arg.strides[0] == bytes && aligned_to(arg.data, pack);
  for (int d = 1; d < plan.ndim; ++d) fits = fits && arg.strides[d] % pack == 0;
  return fits;
}

}  // namespace

bool packed_grid(const PointwisePlan& plan, PackKind kind, PackedGrid& g) {
  const int count = 16 / kind.element;
  const int64_t packs = plan.numel / count;
  g.outer = plan.ndim - 1;
  if (g.outer > PackedGrid::kMaxOuter || packs >= kDividerLimit) return false;
  if (g.outer > 0 && plan.sizes[0] % count != 0) return false;
  const auto is_plain = [&](const PointwiseArg& arg) {
    if (arg.scalar) return true;
    if (kind.element == 2 && arg.dtype != kind.half) return false;
    return compute_dtype(arg.dtype) == plan.compute && !is_storage(arg.dtype);
  };
  const auto is_truth = [](const PointwiseArg& arg) { return arg.dtype == DType::Bool; };
  for (int t = 0; t <= plan.inputs; ++t) {
    const PointwiseArg& arg = t == plan.inputs ? plan.out : plan.in[t];
    const bool is_mask = t == plan.inputs ? kind.truth : t == kind.mask;
    if (!(is_mask ? is_truth(arg) : is_plain(arg))) return false;
    if (!add_operand(plan, arg, t, is_mask ? 1 : kind.element, count, g)) return false;
  }
  g.packs = static_cast<uint32_t>(packs);
  g.rest = static_cast<uint32_t>(plan.numel % count);
  if (g.outer > 0) g.by[0] = Divider(plan.sizes[0] / count);
  for (int d = 1; d < g.outer; ++d) g.by[d] = Divider(plan.sizes[d]);
  return true;
}

}  // namespace moonlet::cuda
