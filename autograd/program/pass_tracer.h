// autograd/program/pass_tracer.h: writes down one backward pass of a captured function: the engine
// runs with stand-ins for the gradients that come, under the capture that saw the function.
#pragma once

#include <functional>
#include <vector>

#include "autograd/engine.h"
#include "autograd/program/trace.h"

namespace moonlet::program {

// One backward pass as it was captured.
struct CapturedBackward {
  size_t first_node = 0, last_node = 0;
  std::vector<ValueId> gradients;  // that it starts with
  // By target: the sum of what came, or what came along each way.
  std::vector<std::vector<ValueId>> found;
  bool several = false;  // more than one way to some target
};

// A new tensor of those strides, which may be 0.
Tensor filled(const Dims& sizes, const Dims& strides, Options options, double number);

class PassTracer {
 public:
  // `through_hooks`: hooks of saved tensors may run.
  PassTracer(const CapturedRun& run, bool through_hooks)
      : run_(run), through_hooks_(through_hooks) {}

  std::vector<Tensor> outputs;     // by output of the tape's node
  std::vector<Edge> starts, ends;  // by output of the node; by target

  // The strides of the gradients are those of `strides`, or where it is empty as the outputs lie.
  CapturedBackward trace(const std::vector<int>& from, const std::vector<Dims>& strides, bool sums);
  // `input_for` says where a value of the forward pass comes from.
  BackwardGraph graph(const std::vector<int>& from, const CapturedBackward& pass,
                      const std::function<int(int)>& first_edge,
                      const std::function<BackwardGraph::Input(ValueId)>& input_for) const;

 private:
  std::vector<Tensor> stand_ins(const std::vector<int>& from,
                                const std::vector<Dims>& strides) const;
  void check_pass(const CapturedBackward& pass) const;
  std::string reader_of(ValueId id) const;

  const CapturedRun& run_;
  const bool through_hooks_;
};

}  // namespace moonlet::program
