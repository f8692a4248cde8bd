// cuda/libraries/cudnn_engines.cpp: the choice of cuDNN's engines for a graph, and their runs.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_engines.h"

#include <utility>

#include "cuda/runtime/capture.h"

namespace moonlet::cuda::cudnn {

namespace {

// Whether the engine of a configuration may be used.
bool may_use(const Descriptor& config, const EngineRules& rules) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, config.op());
  cudnnBackendDescriptor_t at = engine.get();
  config.get_all(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &at);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count = engine.get_all(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  for (int64_t i = 0; i < count; ++i) {
    // float32 as float16 is what nobody asked for.
    if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) return false;
    if (rules.deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (rules.exact_factors && notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;
  }
  return true;
}

}  // namespace

void GraphPlan::propose(cudnnHandle_t handle, cudnnBackendHeurMode_t mode,
                        const EngineRules& rules) {
  const char* op = graph_.op();
  const Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, op);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operations_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristics.finalize();
  const int64_t most =
      heuristics.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> at;
  for (int64_t i = 0; i < most; ++i)
    at.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, op).get());
  const int64_t count = heuristics.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, most, at.data());
  for (int64_t i = 0; i < count; ++i) {
    Engine engine{std::move(configs[static_cast<size_t>(i)]), std::nullopt};
    if (!may_use(engine.config, rules)) continue;
    // One at least that works; the others are made ready when they are wanted.
    if (engines_.empty() && !make_ready(engine, handle)) continue;
    engines_.push_back(std::move(engine));
  }
}

bool GraphPlan::make_ready(Engine& engine, cudnnHandle_t handle) const {
  if (engine.plan) return true;
  try {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, graph_.op());
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
    if (kernels_) plan.set(CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, *kernels_);
    plan.finalize();
    int64_t bytes = 0;
    plan.get_all(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    engine.workspace = static_cast<size_t>(bytes);
    if (engine.workspace > kMostWorkspace) return false;
    engine.plan = std::move(plan);
    return true;
  } catch (const NoWay&) {
    return false;
  }
}

void GraphPlan::plan(cudnnHandle_t handle, const EngineRules& rules, KernelCache* kernels) {
  Descriptor operations = graph_.operations();
  operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  if (kernels) operations.set(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, true);
  operations.finalize();
  operations_ = std::move(operations);
  if (kernels && !*kernels) {
    Descriptor made(CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR, graph_.op());
    made.set(CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, *operations_);
    made.finalize();
    *kernels = std::make_shared<const Descriptor>(std::move(made));
  }
  kernels_ = kernels ? *kernels : nullptr;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      propose(handle, mode, rules);
    } catch (const NoWay&) {
      continue;
    }
    if (!is_empty()) break;
  }
}

GraphPlan GraphPlan::of(Graph graph, cudnnHandle_t handle, const EngineRules& rules,
                        KernelCache* kernels) {
  GraphPlan out(std::move(graph));
  if (kernels) {
    try {
      out.plan(handle, rules, kernels);
    } catch (const NoWay&) {
      // Some versions and some graphs have kernels for their own sizes alone.
    }
  }
  if (out.is_empty()) out.plan(handle, rules, nullptr);
  return out;
}

Outcome GraphPlan::attempt(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given,
                           Engine& engine) const {
  // Kernels may be compiled and loaded, which a stream that is recorded does not stand.
  if (!engine.plan && is_captured(call.stream())) return Outcome::NoMemory;
  if (!make_ready(engine, handle)) return Outcome::NoWay;
  try {
    return cudnn::attempt(call, engine.workspace, [&](void* workspace) {
      const Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, call.op());
      const auto count = static_cast<int64_t>(given.size());
      pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
                   graph_.given().data());
      pack.set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, given.data());
      pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
      pack.finalize();
      return library()->cudnnBackendExecute(handle, engine.plan->get(), pack.get());
    });
  } catch (const NoWay&) {
    return Outcome::NoWay;
  }
}

bool GraphPlan::run(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given) {
  return take_first(engines_, [&](Engine& engine) { return attempt(call, handle, given, engine); });
}

void GraphPlan::time(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given,
                     int32_t limit) {
  sort_by_time(call, engines_, limit,
               [&](Engine& engine) { return attempt(call, handle, given, engine); });
}

}  // namespace moonlet::cuda::cudnn

#endif
