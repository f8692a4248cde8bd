// cuda/libraries/cudnn_engines.h: cuDNN's engines for a graph: those that its heuristics propose,
// of them the ones that may be used, and their execution.
#pragma once

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

// How a graph is computed; without engines there is no way.
class GraphPlan {
 public:
  // The engine that is proposed first and works is made ready, which may take a second.
  static GraphPlan of(Graph graph, cudnnHandle_t handle, const EngineRules& rules);

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
  void propose(cudnnHandle_t handle, cudnnBackendHeurMode_t mode, const EngineRules& rules);
  bool make_ready(Engine& engine, cudnnHandle_t handle) const;
  Outcome attempt(const Call& call, cudnnHandle_t handle, const std::vector<void*>& given,
                  Engine& engine) const;

  Graph graph_;
  std::optional<Descriptor> operations_;
  std::vector<Engine> engines_;  // the best first
};

}  // namespace moonlet::cuda::cudnn
