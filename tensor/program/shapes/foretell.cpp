// tensor/program/shapes/foretell.cpp: finds the sizes that vary between graphs, and fits what
// follows them.
#include "tensor/program/shapes/foretell.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/program/shapes/dynamic.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::program {

namespace {

using Sizes = std::vector<int64_t>;

const Dims& input_sizes(const Graph& graph, size_t input) {
  return graph.values[graph.inputs[input]].sizes;
}

bool same_ranks(const Graph& a, const Graph& b) {
  bool same = a.inputs.size() == b.inputs.size();
  for (size_t i = 0; same && i < a.inputs.size(); ++i)
    same = input_sizes(a, i).size() == input_sizes(b, i).size();
  return same;
}

// The sizes that are not the same in all graphs; those that are equal in each are one.
class Varying {
 public:
  explicit Varying(std::vector<const Graph*> graphs) : graphs_(std::move(graphs)) {
    for (size_t i = 0; i < graphs_[0]->inputs.size(); ++i)
      for (int d = 0; d < input_sizes(*graphs_[0], i).size(); ++d) look_at(i, d);
  }
  const std::vector<DynamicSize>& dims() const { return dims_; }
  size_t count() const { return symbols_.size(); }
  // Of one of the graphs, by symbol.
  Sizes at(size_t graph) const {
    Sizes out;
    for (const Sizes& each : symbols_) out.push_back(each[graph]);
    return out;
  }

 private:
  void look_at(size_t input, int dim) {
    Sizes seen;
    for (const Graph* each : graphs_) seen.push_back(input_sizes(*each, input)[dim]);
    if (std::all_of(seen.begin(), seen.end(), [&](int64_t n) { return n == seen[0]; })) return;
    const auto found = std::find(symbols_.begin(), symbols_.end(), seen);
    const auto symbol = static_cast<int32_t>(found - symbols_.begin());
    if (found == symbols_.end()) symbols_.push_back(std::move(seen));
    dims_.push_back({static_cast<int32_t>(input), dim, symbol});
  }

  const std::vector<const Graph*> graphs_;
  std::vector<DynamicSize> dims_;
  std::vector<Sizes> symbols_;  // by symbol and graph
};

// The graphs of different sizes; first those that are enough to fit by, as far as there are such.
std::vector<size_t> samples(const Varying& varying, size_t count) {
  std::vector<size_t> first, rest;
  std::vector<Sizes> chosen;
  std::vector<Sizes> all;
  for (size_t i = 0; i < count; ++i) {
    Sizes sizes = varying.at(i);
    if (std::find(all.begin(), all.end(), sizes) != all.end()) continue;
    all.push_back(sizes);
    chosen.push_back(std::move(sizes));
    if (are_independent(chosen)) {
      first.push_back(i);
    } else {
      chosen.pop_back();
      rest.push_back(i);
    }
  }
  if (first.size() <= varying.count()) return {};
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace

std::optional<Graph> foretell(std::span<const Graph* const> known, const Graph& now, size_t least,
                              std::string& reason) {
  std::vector<const Graph*> all;
  for (const Graph* each : known)
    if (same_ranks(*each, now)) all.push_back(each);
  all.push_back(&now);
  const Varying varying(all);
  const std::vector<size_t> chosen = samples(varying, all.size() - 1);
  if (chosen.size() < least || varying.count() == 0) {
    reason = "too few sizes are known";
    return {};
  }
  std::vector<Graph> graphs;
  std::vector<Sizes> sizes;
  for (const size_t i : chosen) {
    graphs.push_back(*all[i]);
    sizes.push_back(varying.at(i));
  }
  try {
    ProgramData data;
    data.graph = graphs[0];
    data.default_dtype = execution.default_dtype;
    data.input_names.resize(data.graph.inputs.size());
    data.output_names.resize(data.graph.outputs.size());
    data.dynamic.sizes = varying.dims();
    fit_dynamic(data, graphs, sizes);
    return with_sizes(data, varying.at(all.size() - 1));
  } catch (const Interrupted&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    reason = e.what();
    if (const std::string_view by = "export: "; reason.starts_with(by)) reason.erase(0, by.size());
  }
  return {};
}

}  // namespace moonlet::program
