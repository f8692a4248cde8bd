// tensor/program/plan.h: a graph made ready to run: where each buffer lies, and how each node runs.
// A plan does not change and is shared by threads; a Runner (runner.h) is the memory of one.
#pragma once

#include <memory>
#include <vector>

#include "tensor/program/fusion/executor.h"
#include "tensor/program/fusion/group.h"
#include "tensor/program/fusion/strip.h"

namespace moonlet::program {

// Where a buffer lies.
struct Allocation {
  enum class Kind : uint8_t {
    Input,      // in the memory of an input
    Parameter,  // in that of a parameter
    Arena,      // at an offset of the runner's one block
    Output,     // in memory of its own at each run: an output's
    Node,       // in what the node that makes it allocates
    None        // nothing uses it
  };
  Kind kind = Kind::None;
  int64_t offset = 0;  // in the arena, in bytes
};

// The part of a buffer on which its values lie, in bytes.
struct Reach {
  int64_t begin = 0, end = 0;
};

// How a node runs, or several.
struct Step {
  enum class Kind : uint8_t {
    Loop,       // several pointwise nodes in one pass
    Strip,      // several groups of nodes, some rows at a time
    Pointwise,  // the kernel of a pointwise op, on a layout that is worked out once
    Kernel,     // the kernel alone, into memory of the plan
    Out,        // the out form of an op, into memory of the plan
    Copied,     // a copy of the first argument, and the in-place form on that
    AsIs        // the node's own form; a plain one allocates its results
  };
  Kind kind = Kind::AsIs;
  int32_t node = kNone;  // the first
  int32_t loop = kNone;  // index into Plan::loops, of Kind::Loop; Plan::strips, of Kind::Strip
};
// Several nodes that run as one.
struct LoopStep {
  Group group;
  std::unique_ptr<const LoopExecutor> executor;
};

// How a plan is made.
struct PlanOptions {
  bool optimize = true;  // passes over the graph, loops of several nodes, and strips
  // What rows that run at once read and write; 0: what fits the caches of the threads.
  int64_t strip_bytes = 0;
};

class Plan {
 public:
  // Throws for a graph that does not fit together.
  static std::shared_ptr<const Plan> make(Graph graph, const PlanOptions& options = {});

  const Graph& graph() const { return graph_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<LoopStep>& loops() const { return loops_; }
  const std::vector<Strip>& strips() const { return strips_; }
  const Allocation& allocation(BufferId buffer) const { return allocations_[buffer]; }
  Reach reach(BufferId buffer) const { return reaches_[buffer]; }
  int64_t arena_bytes() const { return arena_bytes_; }
  // The device of all internal memory.
  Device device() const { return device_; }
  // The buffers of inputs and parameters that some node writes.
  const std::vector<BufferId>& written() const { return written_; }

 private:
  Plan() = default;
  void choose_steps(const PlanOptions& options);
  void add_step(Group group);
  void add_strip(Strip strip);
  void note_written(int32_t node);
  // Calls f(buffer) for each buffer that a step uses.
  template <class F>
  void each_buffer(const Step& step, F&& f) const;
  void allocate_buffers();
  void find_reaches();

  Graph graph_;
  std::vector<Step> steps_;
  std::vector<LoopStep> loops_;
  std::vector<Strip> strips_;
  std::vector<Allocation> allocations_;
  std::vector<Reach> reaches_;  // by buffer
  std::vector<BufferId> written_;
  int64_t arena_bytes_ = 0;
  Device device_;
};

}  // namespace moonlet::program
