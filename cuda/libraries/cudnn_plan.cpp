// cuda/libraries/cudnn_plan.cpp: the plans of convolutions by cuDNN: descriptors, the choice of
// algorithms and of the memory that they work in.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_plan.h"

#include <memory>
#include <type_traits>
#include <vector>

#include "cuda/libraries/cudnn_graph.h"
#include "cuda/libraries/cudnn_ways.h"
#include "cuda/libraries/plan_cache.h"
#include "cuda/runtime/graph.h"

namespace moonlet::cuda::cudnn {

namespace {

constexpr size_t kMostPlans = 4096;  // that a thread keeps: ten large networks
constexpr int kMostAlgorithms = 16;  // that are asked for

struct Destroy {
  void operator()(cudnnTensorDescriptor_t d) const { library()->cudnnDestroyTensorDescriptor(d); }
  void operator()(cudnnFilterDescriptor_t d) const { library()->cudnnDestroyFilterDescriptor(d); }
  void operator()(cudnnConvolutionDescriptor_t d) const {
    library()->cudnnDestroyConvolutionDescriptor(d);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

struct Algorithm {
  int number;
  cudnnMathType_t math;
  size_t workspace;
};

struct Plan {
  Owned<cudnnTensorDescriptor_t> x, y;
  Owned<cudnnFilterDescriptor_t> weight;
  Owned<cudnnConvolutionDescriptor_t> conv;
  std::vector<Algorithm> algorithms;  // the best first; none: cuDNN has no way
};

// What algorithms may do with the factors; sums are in float or double always.
cudnnMathType_t math_of(const Problem& p) {
  if (p.dtype == DType::Float32) return p.allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  return p.dtype == DType::Float64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

// The strides of dense sizes: row-major, or with the channels innermost.
std::array<int, 5> strides_of(const Problem& p, const std::array<int32_t, 5>& sizes) {
  std::array<int, 5> out{};
  int step = 1;
  if (p.channels_last) {
    out[1] = 1;
    step = sizes[1];
  }
  for (int i = p.axes + 1; i >= 0; --i) {
    if (p.channels_last && i == 1) continue;
    out[static_cast<size_t>(i)] = step;
    step *= sizes[static_cast<size_t>(i)];
  }
  return out;
}

bool describe_tensor(const Problem& p, const std::array<int32_t, 5>& sizes,
                     Owned<cudnnTensorDescriptor_t>& out, const char* op) {
  cudnnTensorDescriptor_t made = nullptr;
  if (!went_well(library()->cudnnCreateTensorDescriptor(&made), op)) return false;
  out.reset(made);
  const std::array<int, 5> strides = strides_of(p, sizes);
  return went_well(library()->cudnnSetTensorNdDescriptor(made, type_of(p.dtype), p.axes + 2,
                                                         sizes.data(), strides.data()),
                   op);
}

bool describe_filters(const Problem& p, Owned<cudnnFilterDescriptor_t>& out, const char* op) {
  cudnnFilterDescriptor_t made = nullptr;
  if (!went_well(library()->cudnnCreateFilterDescriptor(&made), op)) return false;
  out.reset(made);
  const cudnnTensorFormat_t format = p.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  return went_well(library()->cudnnSetFilterNdDescriptor(made, type_of(p.dtype), format, p.axes + 2,
                                                         p.weight.data()),
                   op);
}

bool describe_window(const Problem& p, Owned<cudnnConvolutionDescriptor_t>& out, const char* op) {
  cudnnConvolutionDescriptor_t made = nullptr;
  if (!went_well(library()->cudnnCreateConvolutionDescriptor(&made), op)) return false;
  out.reset(made);
  const cudnnDataType_t sums = p.dtype == DType::Float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  return went_well(library()->cudnnSetConvolutionNdDescriptor(made, p.axes, p.padding.data(),
                                                              p.stride.data(), p.dilation.data(),
                                                              CUDNN_CROSS_CORRELATION, sums),
                   op) &&
         went_well(library()->cudnnSetConvolutionGroupCount(made, p.groups), op) &&
         went_well(library()->cudnnSetConvolutionMathType(made, math_of(p)), op);
}

// The bytes that an algorithm works in, with the plan's descriptor set to its arithmetic.
cudnnStatus_t workspace_of(cudnnHandle_t handle, Kind kind, const Plan& d, int number,
                           size_t* bytes) {
  const Library& lib = *library();
  switch (kind) {
    case Kind::Forward:
      return lib.cudnnGetConvolutionForwardWorkspaceSize(
          handle, d.x.get(), d.weight.get(), d.conv.get(), d.y.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(number), bytes);
    case Kind::Data:
      return lib.cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle, d.weight.get(), d.y.get(), d.conv.get(), d.x.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(number), bytes);
    case Kind::Filter: break;
  }
  return lib.cudnnGetConvolutionBackwardFilterWorkspaceSize(
      handle, d.x.get(), d.y.get(), d.conv.get(), d.weight.get(),
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(number), bytes);
}

// Of what the library proposes, the algorithms that may be used.
template <class Proposal>
void take(const Problem& p, cudnnHandle_t handle, const Proposal* proposals, int count, Plan& out,
          const char* op) {
  for (int i = 0; i < count; ++i) {
    const Proposal& it = proposals[i];
    const bool repeats = it.determinism == CUDNN_DETERMINISTIC;
    if (it.status != CUDNN_STATUS_SUCCESS || (p.deterministic && !repeats)) continue;
    // float32 as float16 is what nobody asked for.
    if (it.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) continue;
    const bool exact = math_of(p) == CUDNN_FMA_MATH;
    Algorithm found{static_cast<int>(it.algo), exact ? CUDNN_FMA_MATH : it.mathType, 0};
    if (!went_well(library()->cudnnSetConvolutionMathType(out.conv.get(), found.math), op) ||
        !went_well(workspace_of(handle, p.kind, out, found.number, &found.workspace), op))
      continue;
    if (found.workspace <= kMostWorkspace) out.algorithms.push_back(found);
  }
}

void choose(const Problem& p, cudnnHandle_t handle, Plan& d, const char* op) {
  const Library& lib = *library();
  const auto propose = [&]<class Proposal>(auto&& ask) {
    Proposal found[kMostAlgorithms];
    int count = 0;
    if (went_well(ask(&count, found), op)) take(p, handle, found, count, d, op);
  };
  switch (p.kind) {
    case Kind::Forward:
      return propose.operator()<cudnnConvolutionFwdAlgoPerf_t>([&](int* count, auto* found) {
        return lib.cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x.get(), d.weight.get(),
                                                          d.conv.get(), d.y.get(), kMostAlgorithms,
                                                          count, found);
      });
    case Kind::Data:
      return propose.operator()<cudnnConvolutionBwdDataAlgoPerf_t>([&](int* count, auto* found) {
        return lib.cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d.weight.get(), d.y.get(),
                                                               d.conv.get(), d.x.get(),
                                                               kMostAlgorithms, count, found);
      });
    case Kind::Filter: break;
  }
  propose.operator()<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int* count, auto* found) {
    return lib.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, d.x.get(), d.y.get(), d.conv.get(), d.weight.get(), kMostAlgorithms, count, found);
  });
}

Plan make_plan(const Problem& p, cudnnHandle_t handle, const char* op) {
  Plan out;
  if (describe_tensor(p, p.x, out.x, op) && describe_tensor(p, p.y, out.y, op) &&
      describe_filters(p, out.weight, op) && describe_window(p, out.conv, op))
    choose(p, handle, out, op);
  return out;
}

// Runs one algorithm in memory that is large enough.
cudnnStatus_t compute(cudnnHandle_t handle, const Problem& p, const Plan& d, const Algorithm& by,
                      void* workspace, const Operands& at) {
  const Library& lib = *library();
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = p.dtype == DType::Float64;
  const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  if (const cudnnStatus_t status = lib.cudnnSetConvolutionMathType(d.conv.get(), by.math))
    return status;
  switch (p.kind) {
    case Kind::Forward:
      return lib.cudnnConvolutionForward(handle, alpha, d.x.get(), at.x, d.weight.get(), at.weight,
                                         d.conv.get(),
                                         static_cast<cudnnConvolutionFwdAlgo_t>(by.number),
                                         workspace, by.workspace, beta, d.y.get(), at.y);
    case Kind::Data:
      return lib.cudnnConvolutionBackwardData(handle, alpha, d.weight.get(), at.weight, d.y.get(),
                                              at.y, d.conv.get(),
                                              static_cast<cudnnConvolutionBwdDataAlgo_t>(by.number),
                                              workspace, by.workspace, beta, d.x.get(), at.x);
    case Kind::Filter: break;
  }
  return lib.cudnnConvolutionBackwardFilter(
      handle, alpha, d.x.get(), at.x, d.y.get(), at.y, d.conv.get(),
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(by.number), workspace, by.workspace, beta,
      d.weight.get(), at.weight);
}

Outcome attempt(const Call& call, cudnnHandle_t handle, const Problem& p, const Plan& plan,
                const Algorithm& by, const Operands& at) {
  return cudnn::attempt(call, by.workspace, [&](void* workspace) {
    return compute(handle, p, plan, by, workspace, at);
  });
}

Plan& plan_of(const Call& call, cudnnHandle_t handle, const Problem& p, const Operands& at) {
  static thread_local PlanCache<Problem, Plan> plans(kMostPlans);
  if (Plan* known = plans.find(p)) return *known;
  Plan made = make_plan(p, handle, call.op());
  if (p.benchmark) {
    sort_by_time(call, made.algorithms, p.benchmark_limit,
                 [&](const Algorithm& by) { return attempt(call, handle, p, made, by, at); });
  }
  return plans.keep(p, std::move(made));
}

}  // namespace

size_t Problem::hash() const {
  Mixer out;
  out.add(kind, device, dtype, axes, groups, channels_last, allow_tf32, deterministic, benchmark,
          benchmark_limit);
  for (const auto* sizes : {&x, &weight, &y}) out.add_all(*sizes);
  for (const auto* window : {&stride, &padding, &dilation}) out.add_all(*window);
  return out.value();
}

bool run(const Call& call, const Problem& wanted, const Operands& at) {
  cudnnHandle_t handle = handle_of(call);
  if (!handle) return false;
  Problem p = wanted;
  // Nothing can be timed while it is recorded: then cuDNN's guess is taken.
  p.benchmark = p.benchmark && !is_captured(call.stream());
  if (!p.benchmark) p.benchmark_limit = 0;
  Plan& plan = plan_of(call, handle, p, at);
  return take_first(plan.algorithms,
                    [&](const Algorithm& by) { return attempt(call, handle, p, plan, by, at); });
}

}  // namespace moonlet::cuda::cudnn

#endif
