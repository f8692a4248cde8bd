// tensor/program/capture.h: writes down the primitive ops that run on this thread as a graph. The
// ops run as ever; the capture lies below the tape, vmap's levels and all modes, and so sees what
// they are made of.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensor/program/captured_call.h"
#include "tensor/program/graph.h"

namespace moonlet::program {

// How the tape met a node: whether grad mode was on, and which of the tensors among its arguments,
// in the order of `each_argument`, required grad.
struct TapeState {
  bool grad_mode = true;
  std::vector<bool> required;  // empty: all that do
};

class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Where the script is: "train.lua:12". Asked at every op.
  std::function<std::string()> locate;

  // The next input of the graph. Before the ops that use it.
  void add_input(const Tensor& t);
  // A tensor of new memory that ops are about to fill.
  void add_made(const Tensor& t);
  // What a tensor that is no input is called, should it be used.
  void name_parameter(const Tensor& t, std::string name);
  bool is_named(const Tensor& t) const { return names_.contains(t.impl()); }
  // What a tensor from outside held before an op first changed it.
  struct Changed {
    BufferId buffer = kNone;
    Tensor now, before;  // on the same memory; of the same geometry on a copy of all of it
  };
  // From now on copies are kept of tensors from outside that ops change.
  void keep_changed() { keeps_changed_ = true; }
  const std::vector<Changed>& changed() const { return changed_; }
  // The next output.
  void add_output(const Tensor& t);

  // The node that was written last gets its numbers from a source of its own from now on, whose
  // index this gives; kNone where there is no node.
  int32_t vary_numbers();

  // A leaf whose gradient the function reads, sets or adds to.
  struct LeafGradient {
    Tensor leaf;
    Tensor before;          // what it was at first; may be undefined
    ValueId value = kNone;  // that of `before`
    bool was_read = false;  // and so must be defined, or not, again
  };
  // Notes the gradient that a leaf has, before it changes or as it is read.
  void note_gradient(const Tensor& leaf, const Tensor& now, bool is_read);
  const std::vector<LeafGradient>& leaf_gradients() const { return leaf_gradients_; }

  // Ends the capture: what was written down is no whole function. The first reason stays.
  void stop(std::string reason);
  const std::optional<std::string>& stopped() const { return stopped_; }
  // Where the script was then.
  const std::string& stopped_at() const { return stopped_at_; }

  // The value that a tensor is, if the graph has it as it is now. Parameters are made of what it
  // does not know.
  ValueId value_of(const Tensor& t);
  bool knows(const Tensor& t) const { return by_handle_.contains(t.impl()); }
  // The tensor that a value was while it was captured.
  const Tensor& tensor_of(ValueId value) const { return held_[value]; }

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  // Makes a value an input, behind those there are.
  void add_input(ValueId value) { graph_.inputs.push_back(value); }
  TapeState tape_state(size_t node) const {
    return node < tape_.size() ? tape_[node] : TapeState();
  }
  Graph take() { return std::move(graph_); }

 private:
  friend class CapturedCall;
  void write(const OpInfo& op, const BoxedValues& arguments, const BoxedValues& results);
  ValueId add_value(const Tensor& t, Buffer::Kind kind);
  Argument argument(const BoxedValue& value);
  Result result(const BoxedValue& value);
  ValueId result_value(const Tensor& t);
  int32_t line();
  void keep_written(const OpInfo& op, const BoxedValues& arguments);
  void keep_before_write(const Tensor& t);

  Graph graph_;
  std::vector<TapeState> tape_;  // by node
  std::vector<Tensor> held_;     // by value
  std::vector<Tensor> more_handles_;
  std::unordered_map<const TensorImpl*, ValueId> by_handle_;
  std::unordered_map<const Storage*, ValueId> by_storage_;  // the first value on it
  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_map<std::string, int32_t> lines_;
  std::vector<LeafGradient> leaf_gradients_;
  std::unordered_map<const TensorImpl*, size_t> leaves_;  // indices of leaf_gradients_
  bool keeps_changed_ = false;
  std::vector<Changed> changed_;
  int32_t number_sources_ = 0;
  std::optional<std::string> stopped_;
  std::string stopped_at_;
};

// Installs a capture on this thread for a C++ scope.
class CaptureScope {
 public:
  explicit CaptureScope(Capture& capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Capture* const before_;
};

}  // namespace moonlet::program
