// tensor/program/parts/trace.h: the ops that a function ran, as far as they were met: a tree, since
// it may go one way or another, cut into parts where contents were asked for. A part is matched
// with the ops of a later call, and made a graph of to run (deferral.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/program/graph.h"
#include "tensor/program/runner.h"

namespace moonlet::program {

class TraceStep;
struct Part;

// What lies at the end of a part: how it runs, and what follows.
struct PartEnd {
  PartEnd();
  ~PartEnd();
  std::string reason;  // why it ends: "item reads values (train.lua:12)"
  int64_t runs = 0;    // how often it ran as a whole
  size_t ops = 0;
  // By buffer of the part: made memory that somebody asked for behind the end.
  std::vector<bool> wanted;
  // All that is alive is computed: what was left undone was computed too often after all.
  bool keeps_all = false;
  int wasted = 0;
  int collected_in_vain = 0;  // how often a collection before the end found no garbage
  // The plan, the buffers that are its outputs, and for which tree it was made.
  std::unique_ptr<Runner> runner;
  std::vector<BufferId> inputs, outputs;
  std::vector<const TraceStep*> varying;
  int64_t varied = -1;
  int plans = 0;
  std::unique_ptr<TraceStep> next;  // the root of the next part
};

// A tensor of a step lies in a buffer; those that are new with the step come behind all of before.
struct StepBuffer {
  bool is_external = false;  // memory from outside the part
  int64_t bytes = 0;
};

// An op of a part, with the geometry of what it takes and gives.
class TraceStep {
 public:
  const RawOp* op = nullptr;  // null for the root of a part
  const RowInfo* row = nullptr;
  OpInfo::Form form = OpInfo::Form::Plain;
  std::vector<Argument> arguments;  // refs are indices of `tensors`
  std::vector<Result> results;
  std::vector<Value> tensors;
  std::vector<StepBuffer> made;  // new buffers
  bool varies = false;           // its numbers are given anew by each call
  bool gives_arguments = false;  // its results lie in memory that there was

  const TraceStep* parent = nullptr;
  BufferId first_buffer = 0;  // the number of buffers before
  int depth = 0;
  BufferId buffers() const { return first_buffer + static_cast<BufferId>(made.size()); }

  std::vector<std::unique_ptr<TraceStep>> next;
  std::unique_ptr<PartEnd> end;

  // What the op does beside giving results, worked out when all is filled in.
  std::vector<ValueId> written;  // indices of `tensors`
  bool may_raise = false;        // an error for elements that it reads
  bool may_vary = false;         // whether nothing but elements depends on numbers that are floats
  void work_out();
};

// All of a function.
struct Trace {
  Trace() = default;
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  static constexpr size_t kMostSteps = 20'000;  // more are not written down
  static constexpr size_t kMostWays = 8;        // from one step

  PartEnd start;
  size_t steps = 0;
  int64_t varied = 0;      // rises when the numbers of another step are found to vary
  int64_t mismatches = 0;  // how often a part was left before its end
  int64_t runs = 0;
  int in_vain = 0;  // how many runs in a row met something new
};

// The numbers of a step that varies, as a call gave them.
struct GivenNumbers {
  const TraceStep* step;
  std::vector<BoxedValue> numbers;
};

// The steps from the root of the part to this one, without the root.
std::vector<const TraceStep*> path_to(const TraceStep& last);

// A graph of the part that ends with a step. The inputs are the external buffers, in order; the
// outputs those of `wanted`.
struct PartGraph {
  Graph graph;
  std::vector<BufferId> inputs, outputs;
  std::vector<const TraceStep*> varying;  // by source of numbers
};
PartGraph graph_of(const TraceStep& last, const std::vector<bool>& wanted,
                   const std::vector<GivenNumbers>& numbers);

}  // namespace moonlet::program
