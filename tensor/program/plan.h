// tensor/program/plan.h: a graph made ready to run: where each buffer lies, and how each node runs.
// A plan does not change and is shared by threads; a Runner (runner.h) is the memory of one.
#pragma once

#include <memory>
#include <vector>

#include "tensor/program/graph.h"

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

// How a node runs.
struct Step {
  enum class Kind : uint8_t {
    Pointwise,  // the kernel of a pointwise op, on a layout that is worked out once
    Out,        // the out form of an op, into memory of the plan
    Copied,     // a copy of the first argument, and the in-place form on that
    AsIs        // the node's own form; a plain one allocates its results
  };
  Kind kind = Kind::AsIs;
  int32_t node = kNone;
};

class Plan {
 public:
  // Throws for a graph that does not fit together.
  static std::shared_ptr<const Plan> make(Graph graph);

  const Graph& graph() const { return graph_; }
  const std::vector<Step>& steps() const { return steps_; }
  const Allocation& allocation(BufferId buffer) const { return allocations_[buffer]; }
  int64_t arena_bytes() const { return arena_bytes_; }
  // The device of all internal memory.
  Device device() const { return device_; }
  // The buffers of inputs and parameters that some node writes.
  const std::vector<BufferId>& written() const { return written_; }

 private:
  Plan() = default;
  void choose_steps();
  void allocate_buffers();

  Graph graph_;
  std::vector<Step> steps_;
  std::vector<Allocation> allocations_;
  std::vector<BufferId> written_;
  int64_t arena_bytes_ = 0;
  Device device_;
};

}  // namespace moonlet::program
