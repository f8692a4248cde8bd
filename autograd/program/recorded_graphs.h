// autograd/program/recorded_graphs.h: what a captured function that has gradients is made of: a
// graph of the forward pass, graphs of the backward pass, and how tensors go between them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/meta.h"
#include "tensor/program/capture.h"

namespace moonlet::program {

// A tensor that the function was given, or used from outside.
struct Given {
  bool is_parameter = false;
  int index = 0;  // into the inputs, or RecordedGraphs::parameters
  bool operator==(const Given&) const = default;
};

// A tensor on the memory of one that was given; the offset counts from that one's.
struct Seen {
  Given given;
  bool whole = true;  // the geometry of that
  Dims sizes, strides;
  int64_t offset = 0;
};

// What the function gave.
struct FunctionResult {
  enum class Kind : uint8_t {
    Given,  // a tensor that it was given, itself
    Seen,   // another tensor on the memory of one, without history
    Made,   // one that the forward graph makes
    View,   // a view of a given or a made one, made again from that
    Again   // an earlier result
  };
  Kind kind = Kind::Made;
  Seen seen;        // Given and Seen; View of a given one
  int made = 0;     // Made; View of a made one: index into RecordedGraphs::made, else kNone
  int earlier = 0;  // Again: which one
  std::vector<ViewRecipe::Step> steps;
  bool no_grad = false;  // the view was made without recording
  int output = kNone;    // View: which output of the tape's node it is
};

// A backward pass as a graph.
struct BackwardGraph {
  struct Input {
    enum class Kind : uint8_t { Gradient, Kept, Given };
    Kind kind = Kind::Gradient;
    int index = 0;  // the node's output, or the position among RecordedGraphs::kept
    Seen seen;
    bool written = false;
  };
  Graph graph;
  std::vector<Input> inputs;
  std::vector<int> edges;  // by output of the graph: the node's edge that it is for
};

// That from the gradients of some results.
struct BackwardPass {
  std::vector<int> from;  // outputs of the node that have gradients, ascending
  BackwardGraph sums;
  // The same without adding up what comes to a target along several ways, which have an edge each:
  // for when something has come there before, as sums have an order. Empty where each has one way.
  BackwardGraph parts;
  // Of the gradients of `from`: gradients that lie otherwise have passes of their own, as ops go
  // through them in another order.
  std::vector<Dims> strides() const;
};

struct RecordedGraphs {
  // Its outputs are those that are made, then those that are kept for the backward pass alone.
  Graph forward;
  std::vector<TapeState> states;   // by node of it
  std::vector<Tensor> parameters;  // all that the function used from outside
  std::vector<FunctionResult> results;
  std::vector<int> made;               // by made output: which output of the tape's node, or kNone
  int output_count = 0;                // of the node
  std::vector<ValueId> output_values;  // by output of the node: in the forward graph
  // Outputs of the node that are no results, but what several of these are views of.
  std::vector<int> bases;
  std::vector<int> kept;       // outputs of the forward graph that are saved
  std::vector<Given> reads;    // what the backward passes read of what was given
  std::vector<Given> targets;  // what gets gradients
  std::vector<int> ways;       // by target: how many edges of the node it has, one after another
  std::vector<std::pair<Given, int>> target_of;  // of all that requires grad: index into them
  std::vector<Given> changed;                    // what the forward pass changes in place
  std::vector<BackwardPass> backward;
  bool is_random = false;  // draws random numbers
  // In which ops compute with integers; none: in that of who runs it.
  std::optional<DType> default_dtype;
  // A backward pass inside the function has freed what its results' gradients would need.
  bool is_freed = false;
  int first_edge(int target) const {
    int at = 0;
    for (int i = 0; i < target; ++i) at += ways[i];
    return at;
  }
  // kNone for what gets no gradient.
  int target(Given which) const {
    for (const auto& [given, target] : target_of)
      if (given == which) return target;
    return kNone;
  }
  // Why the forward pass cannot run again for other derivatives, or "".
  std::string runs_once;
};

// Makes them of one captured run, whose ops the capture has seen: it is not installed any more and
// holds the inputs with the histories they had. `outputs` are the function's results. Nothing, and
// a reason, for what they cannot stand for. `through_hooks`: hooks of saved tensors, as a
// checkpoint's, may run; the caller sees to it that scripts do only what the capture sees.
std::optional<RecordedGraphs> trace_backward(Capture& capture, std::span<const Tensor> outputs,
                                             std::string& reason, bool through_hooks = false);

}  // namespace moonlet::program
