// cuda/libraries/cudnn_conv_graph.cpp: convolutions with bias, and with relu, in one kernel: the
// result is written once, where what comes afterwards would read and write it again.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_conv_graph.h"

#include <optional>

#include "cuda/libraries/cudnn_engines.h"
#include "cuda/libraries/plan_cache.h"
#include "cuda/runtime/capture.h"

namespace moonlet::cuda::cudnn {

namespace {

constexpr size_t kMostPlans = 2048;  // that a thread keeps

// The first of a list, one for each axis.
Dims axes_of(const Problem& p, const std::array<int32_t, 3>& given) {
  Dims out;
  for (int i = 0; i < p.axes; ++i) out.push_back(given[static_cast<size_t>(i)]);
  return out;
}

Dims sizes_of(const Problem& p, const std::array<int32_t, 5>& given) {
  Dims out;
  for (int i = 0; i < p.axes + 2; ++i) out.push_back(given[static_cast<size_t>(i)]);
  return out;
}

Dims strides_of(const Problem& p, const Dims& sizes) {
  const auto last = p.axes == 3 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
  return p.channels_last ? format_strides(last, sizes, "conv") : contiguous_strides(sizes);
}

// What a plan depends on.
struct Biased {
  Problem problem;
  bool relu;
  bool operator==(const Biased&) const = default;
  size_t hash() const { return problem.hash() * 2 + relu; }
};

std::optional<GraphPlan> make_plan(const Call& call, cudnnHandle_t handle, const Biased& of) {
  const Problem& p = of.problem;
  const bool exact = p.dtype == DType::Float32 && !p.allow_tf32;
  try {
    return GraphPlan::of(biased_graph(p, of.relu, call.op()), handle, {p.deterministic, exact});
  } catch (const NoWay&) {
    return std::nullopt;
  }
}

}  // namespace

Graph biased_graph(const Problem& p, bool relu, const char* op) {
  Graph out(op);
  const cudnnDataType_t type = type_of(p.dtype);
  const auto memory = [&](const Dims& sizes) {
    return out.memory(type, sizes, strides_of(p, sizes));
  };
  const Dims result = sizes_of(p, p.y);
  Dims channels = Dims::filled(p.axes + 2, 1);
  channels[1] = result[1];
  const auto x = memory(sizes_of(p, p.x)), weight = memory(sizes_of(p, p.weight)),
             y = memory(result), bias = memory(channels),
             sums = out.inner(CUDNN_DATA_FLOAT, result, strides_of(p, result));
  out.convolve(x, weight, sums, axes_of(p, p.stride), axes_of(p, p.padding),
               axes_of(p, p.dilation));
  const auto shifted = relu ? out.inner(CUDNN_DATA_FLOAT, result, strides_of(p, result)) : y;
  out.pointwise(CUDNN_POINTWISE_ADD, {sums, bias}, shifted);
  if (relu) out.pointwise(CUDNN_POINTWISE_RELU_FWD, {shifted}, y);
  return out;
}

bool run_biased(const Call& call, const Problem& p, const Operands& at, const Tensor& bias,
                bool relu) {
  if (p.dtype == DType::Float64) return false;
  cudnnHandle_t handle = handle_of(call);
  if (!handle) return false;
  const std::vector<void*> given{at.x, at.weight, at.y, bias.raw()};
  static thread_local PlanCache<Biased, std::optional<GraphPlan>> plans(kMostPlans);
  const Biased key{p, relu};
  std::optional<GraphPlan>* found = plans.find(key);
  if (found == nullptr) {
    if (is_captured(call.stream())) return false;
    auto made = make_plan(call, handle, key);
    if (made && p.benchmark) made->time(call, handle, given, p.benchmark_limit);
    found = &plans.keep(key, std::move(made));
  }
  return *found && (*found)->run(call, handle, given);
}

}  // namespace moonlet::cuda::cudnn

#endif
