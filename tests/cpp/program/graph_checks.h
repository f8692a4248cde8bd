// tests/cpp/program/graph_checks.h: what tests of graphs share: capturing a function, copying
// tensors with what they share, and running a graph before and after a change.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

#include "tensor/core/plain_copy.h"
#include "tensor/program/capture.h"
#include "tensor/program/interpret_raw.h"
#include "tensor/program/runner.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::program {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(Tensors&)>;

inline Tensor of(const Dims& sizes, const std::vector<double>& values,
                 DType dtype = DType::Float32) {
  Tensor out = empty_plain(sizes, {dtype, {}});
  visit<dtypes::real>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < out.numel(); ++i)
      out.elements<T>()[i] = static_cast<T>(values[static_cast<size_t>(i) % values.size()]);
  });
  return out;
}
// Different numbers, negative ones too.
inline Tensor numbers(const Dims& sizes, double first = 1, DType dtype = DType::Float32) {
  std::vector<double> values;
  for (int i = 0; i < 97; ++i) values.push_back(std::fmod(first + i * 0.37, 3.1) - 1.4);
  return of(sizes, values, dtype);
}

// Tensors over copies of the storages of those given: what shares memory shares it again.
class Copies {
 public:
  Tensor operator()(const Tensor& t) {
    const auto [at, is_new] = bases_.try_emplace(&t.storage());
    if (is_new) {
      const auto bytes = static_cast<int64_t>(t.storage().bytes());
      at->second = empty_plain({bytes}, {DType::UInt8, {}});
      if (bytes > 0) std::memcpy(at->second.raw(), t.storage().data(), static_cast<size_t>(bytes));
    }
    return view_of(at->second.storage(), t.sizes(), t.strides(), t.offset(), t.dtype());
  }
  Tensors operator()(const Tensors& all) {
    Tensors out;
    for (const Tensor& each : all) out.push_back((*this)(each));
    return out;
  }

 private:
  std::unordered_map<const Storage*, Tensor> bases_;
};

// The elements in row-major order, bit for bit.
inline std::string bits(const Tensor& t) {
  Tensor whole = empty_plain(t.sizes(), options_of(t));
  copy_plain(whole, t, "bits");
  return std::string(whole.raw(), static_cast<size_t>(whole.numel()) * size_of(whole.dtype()));
}

// The graph of a call of `f`; what `f` gave goes to `gave`.
inline Graph captured(Tensors inputs, const Function& f, Tensors* gave = nullptr) {
  Capture capture;
  for (const Tensor& each : inputs) capture.add_input(each);
  Tensors outputs;
  {
    const CaptureScope scope(capture);
    outputs = f(inputs);
  }
  for (const Tensor& each : outputs) capture.add_output(each);
  INFO(capture.stopped().value_or(""));
  CHECK_FALSE(capture.stopped());
  if (gave != nullptr) *gave = outputs;
  return capture.take();
}

// What a run leaves behind, as text that two runs can be compared by.
struct Outcome {
  std::vector<std::string> outputs, inputs, parameters;
  std::vector<int> shared;  // for each output the first one on the same memory
  uint64_t drawn;           // where the random numbers are
  std::string error;
  bool operator==(const Outcome&) const = default;
};

// A way to run a graph.
using Run = std::function<Tensors(const Graph&, const Tensors& inputs, const Tensors& parameters)>;
inline Tensors by_nodes(const Graph& graph, const Tensors& inputs, const Tensors& parameters) {
  return interpret_raw(graph, inputs, parameters);
}
inline Tensors by_plan(Graph graph, const Tensors& inputs, const Tensors& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) graph.parameters[i].tensor = parameters[i];
  Runner runner(Plan::make(std::move(graph)));
  Tensors outputs;
  runner.run(inputs, outputs);
  return outputs;
}

// Runs a graph on copies of the inputs and parameters. Of those the first `parameters` count.
inline Outcome outcome(const Graph& graph, const Tensors& given, size_t parameters,
                       const Run& run = by_nodes) {
  Copies copies;
  const Tensors inputs = copies(given);
  Tensors held;
  for (const Parameter& each : graph.parameters) held.push_back(copies(each.tensor));
  default_generator().manual_seed(7);
  Outcome out;
  Tensors outputs;
  try {
    outputs = run(graph, inputs, held);
  } catch (const Error& e) {
    out.error = e.what();
  }
  for (const Tensor& each : outputs) {
    out.outputs.push_back(bits(each));
    for (const Tensor& other : outputs)
      if (&other.storage() == &each.storage()) {
        out.shared.push_back(static_cast<int>(&other - outputs.data()));
        break;
      }
  }
  for (const Tensor& each : inputs) out.inputs.push_back(bits(each));
  for (size_t i = 0; i < parameters; ++i) out.parameters.push_back(bits(held[i]));
  out.drawn = default_generator().state().offset;
  return out;
}

}  // namespace moonlet::program
