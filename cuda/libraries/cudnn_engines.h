// cuda/libraries/cudnn_engines.h: cuDNN's engines for a graph: those that its heuristics propose,
// of them the ones that may be used, and their execution.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/libraries/cudnn_graph.h"
#include "cuda/libraries/cudnn_ways.h"

namespace moonlet::cuda::cudnn {

// What engines may do.
struct EngineRules {
  bool deterministic;  // the same result at each run
  bool exact_factors;  // factors are not rounded for tensor cores
};

// Kernels that graphs of one topology share whatever their sizes are, where engines can: to compile
// them takes half a second.
using KernelCache = std::shared_ptr<const Descriptor>;

// How a graph is computed; without engines there is no way.
class GraphPlan {
 public:
  // The engine that is proposed first and works is made ready, which may take a second. `kernels`
  // is for graphs of this topology; what is null at first is made.
  static GraphPlan of(Graph graph, cudnnHandle_t handle, const EngineRules& rules,
                      KernelCache* kernels = nullptr);

  bool is_empty() const { return engines_.empty(); }
  // `given` points at what the graph says that it is given. False where no engine does it.
  bool run(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given);
  // Sorts the first `limit` engines, or with 0 all, by the time that they take.
  void time(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given, int32_t limit);

 private:
  struct Engine {
    Descriptor config;
    std::optional<Descriptor> plan;
    size_t workspace = 0;
  };
  explicit GraphPlan(Graph graph) : graph_(std::move(graph)) {}
  void plan(cudnnHandle_t handle, const EngineRules& rules, KernelCache* kernels);
  void propose(cudnnHandle_t handle, cudnnBackendHeurMode_t mode, const EngineRules& rules);
  bool make_ready(Engine& engine, cudnnHandle_t handle) const;
  Outcome attempt(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given,
                  Engine& engine) const;

  Graph graph_;
  std::optional<Descriptor> operations_;
  KernelCache kernels_;
  std::vector<Engine> engines_;  // the best first
};

}  // namespace moonlet::cuda::cudnn
