// autograd/program/trace.h: what the parts of trace_backward share: the captured run as it was when
// the function returned.
#pragma once

#include <unordered_set>

#include "autograd/program/recorded_graphs.h"

namespace moonlet::program {

using TapeNode = moonlet::Node;

// A function that graphs with gradients cannot stand for.
class Refused : public Error {
 public:
  using Error::Error;
};
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Refused(text(parts...));
}

// The captured forward pass.
class CapturedRun {
 public:
  CapturedRun(Capture& from, std::span<const Tensor> function_results)
      : capture(from), results(function_results) {
    count();
  }
  // The forward pass is all that the capture has seen until now.
  void count();

  Capture& capture;
  const std::span<const Tensor> results;
  size_t nodes = 0, inputs = 0, parameters = 0;
  BufferId buffers = 0;

  const Graph& graph() const { return capture.graph(); }
  const Value& value(ValueId id) const { return graph().values[id]; }
  const Buffer& buffer_of(ValueId id) const { return graph().buffers[value(id).buffer]; }
  // All that was given.
  const std::vector<Given>& given() const { return given_; }
  ValueId id_of(Given given) const {
    return given.is_parameter ? graph().parameters[given.index].value : graph().inputs[given.index];
  }
  const Tensor& tensor_of(Given given) const { return capture.tensor_of(id_of(given)); }
  // Whether the forward pass changes memory that it was given.
  bool is_changed(BufferId buffer) const { return changed_.contains(buffer); }
  // A given tensor on whose memory the value lies.
  Seen seen(ValueId id) const;

 private:
  std::vector<Given> given_;
  std::unordered_set<BufferId> changed_;
};

// Decides what becomes of each result, and which tensors the forward graph makes for them: these
// are given back, by their position in RecordedGraphs::made.
std::vector<Tensor> sort_results(const CapturedRun& run, RecordedGraphs& out);

}  // namespace moonlet::program
