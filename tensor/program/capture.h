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
  // What a tensor that is no input is called, should it be used.
  void name_parameter(const Tensor& t, std::string name);
  // The next output.
  void add_output(const Tensor& t);

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
  Graph take() { return std::move(graph_); }

 private:
  friend class CapturedCall;
  void write(const OpInfo& op, const BoxedValues& arguments, const BoxedValues& results);
  ValueId add_value(const Tensor& t, Buffer::Kind kind);
  Argument argument(const BoxedValue& value);
  Result result(const BoxedValue& value);
  ValueId result_value(const Tensor& t);
  int32_t line();

  Graph graph_;
  std::vector<Tensor> held_;  // by value
  std::vector<Tensor> more_handles_;
  std::unordered_map<const TensorImpl*, ValueId> by_handle_;
  std::unordered_map<const Storage*, ValueId> by_storage_;  // the first value on it
  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_map<std::string, int32_t> lines_;
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
