// tensor/program/shapes/dynamic_fit.cpp: compares the graphs of one function at several sizes.
#include <cmath>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/io/bytes.h"
#include "tensor/program/shapes/dynamic.h"
#include "tensor/program/shapes/dynamic_argument.h"
#include "tensor/program/shapes/shape_run.h"

namespace moonlet::program {

namespace {

using Sizes = std::vector<std::vector<int64_t>>;

bool is_same_form(const Node& a, const Node& b) {
  return a.op == b.op && a.form == b.form && a.arguments.size() == b.arguments.size() &&
         a.results == b.results;
}

// Whether a tensor that is no input is the same in both: the same one, or made of numbers anew with
// the same elements.
bool is_same_tensor(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return true;
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.offset() == b.offset() && a.storage().bytes() == b.storage().bytes() &&
         a.device() == b.device() &&
         io::bytes_of(io::host_rows(a, "export")) == io::bytes_of(io::host_rows(b, "export"));
}

// `again`: how the other graph came about.
void check_alike(const Graph& first, const Graph& other, const char* again) {
  for (size_t i = 0; i < first.nodes.size() && i < other.nodes.size(); ++i)
    if (!is_same_form(first.nodes[i], other.nodes[i]))
      fail("export: ", again, node_name(first, i), " is ", node_name(other, i));
  check(first.nodes.size() == other.nodes.size(), "export: the function calls ", first.nodes.size(),
        " ops, ", again, other.nodes.size());
  check(first.inputs == other.inputs && first.outputs == other.outputs &&
            first.parameters.size() == other.parameters.size(),
        "export: ", again, "the function uses or gives other tensors");
  bool same_values = first.values.size() == other.values.size();
  for (size_t i = 0; same_values && i < first.values.size(); ++i)
    same_values = first.values[i].buffer == other.values[i].buffer &&
                  first.values[i].sizes.size() == other.values[i].sizes.size();
  check(same_values, "export: ", again, "tensors are made or shared in another way");
  for (size_t i = 0; i < first.parameters.size(); ++i)
    check(first.parameters[i].value == other.parameters[i].value &&
              is_same_tensor(first.parameters[i].tensor, other.parameters[i].tensor),
          "export: ", again,
          "a tensor that is no input has other elements: the function makes it "
          "anew, and of more than numbers");
}

// Elimination. Gives the number of rows that do not depend on those above; the last `columns` are
// right sides, which become solutions where the square part has full rank.
size_t eliminate(std::vector<std::vector<long double>>& rows, size_t columns) {
  const size_t width = rows.empty() ? 0 : rows[0].size() - columns;
  constexpr long double kNothing = 1e-9L;
  size_t rank = 0;
  for (size_t c = 0; c < width && rank < rows.size(); ++c) {
    size_t best = rank;
    for (size_t r = rank; r < rows.size(); ++r)
      if (std::abs(rows[r][c]) > std::abs(rows[best][c])) best = r;
    if (std::abs(rows[best][c]) < kNothing) continue;
    std::swap(rows[rank], rows[best]);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (r == rank) continue;
      const long double by = rows[r][c] / rows[rank][c];
      for (size_t k = c; k < width + columns; ++k) rows[r][k] -= by * rows[rank][k];
    }
    const long double pivot = rows[rank][c];
    for (size_t k = c; k < width + columns; ++k) rows[rank][k] /= pivot;
    ++rank;
  }
  return rank;
}

// The integers next to the factors by which `seen` follows the first sizes.
std::vector<int64_t> factors_of(const Sizes& sizes, const std::vector<int64_t>& seen) {
  std::vector<std::vector<long double>> rows;
  for (size_t i = 1; i <= sizes[0].size(); ++i) {
    auto& row = rows.emplace_back();
    for (size_t k = 0; k < sizes[0].size(); ++k)
      row.push_back(static_cast<long double>(sizes[i][k] - sizes[0][k]));
    row.push_back(static_cast<long double>(seen[i] - seen[0]));
  }
  eliminate(rows, 1);
  std::vector<int64_t> out;
  for (const auto& row : rows) out.push_back(std::llround(row.back()));
  return out;
}

// The argument as constant + factors * sizes.
class Fit {
 public:
  Fit(const std::vector<Graph>& graphs, const Sizes& sizes) : graphs_(graphs), sizes_(sizes) {}

  // Nothing where all graphs have the same.
  std::optional<DynamicArgument> of(int32_t node, int32_t argument, int32_t element) const {
    std::vector<int64_t> seen;
    for (const Graph& graph : graphs_)
      seen.push_back(node == kNone ? graph.values[argument].sizes[element]
                                   : *integer_in(graph.nodes[node].arguments[argument], element));
    if (std::equal(seen.begin() + 1, seen.end(), seen.begin())) return {};
    DynamicArgument out{node, argument, element, factors_of(sizes_, seen), seen[0]};
    bool fits = true;
    for (size_t k = 0; k < sizes_[0].size(); ++k) out.constant -= out.factors[k] * sizes_[0][k];
    for (size_t i = 0; i < graphs_.size(); ++i) fits = fits && value_of(out, sizes_[i]) == seen[i];
    if (!fits) refuse(node, argument, seen);
    return out;
  }

  [[noreturn]] void refuse(int32_t node, int32_t argument, const std::vector<int64_t>& seen) const {
    const std::string what = node == kNone
                                 ? text("a size of a new tensor, value ", argument, ",")
                                 : text(node_name(graphs_[0], node), ": argument ", argument + 1);
    if (sizes_[0].empty())
      fail("export: ", what, " is ", seen[0], ", at the second call ", seen[1],
           ": it depends on more than the inputs' sizes");
    fail("export: ", what, " is ", text_of(seen),
         " at sizes that differ, which is no sum of their multiples");
  }

 private:
  const std::vector<Graph>& graphs_;
  const Sizes& sizes_;
};

bool has_integers(const std::vector<Graph>& graphs, int32_t node, int32_t argument,
                  int32_t element) {
  for (const Graph& graph : graphs)
    if (!integer_in(graph.nodes[node].arguments[argument], element)) return false;
  return true;
}

void fit_argument(const std::vector<Graph>& graphs, const Fit& fit, int32_t node, int32_t argument,
                  Dynamic& dynamic) {
  const Argument& first = graphs[0].nodes[node].arguments[argument];
  // Given anew before each run.
  if (graphs[0].nodes[node].numbers != kNone && is_number(first)) return;
  const int32_t count = element_count(first);
  const auto one = [&](int32_t element) {
    if (auto found = fit.of(node, argument, element)) dynamic.arguments.push_back(*found);
  };
  bool alike = true, same_length = true;
  for (const Graph& graph : graphs) {
    const Argument& other = graph.nodes[node].arguments[argument];
    alike = alike && is_same(first, other);
    same_length = same_length && element_count(other) == count && other.index() == first.index();
  }
  if (alike) return;
  if (same_length && count == kNone && has_integers(graphs, node, argument, kNone))
    return one(kNone);
  if (!same_length || count == kNone)
    fail("export: ", node_name(graphs[0], node), ": argument ", argument + 1,
         " is another at the next call, and no integer");
  for (int32_t i = 0; i < count; ++i) one(i);
}

// The values that are new memory: on a buffer of their own, and no node's result.
std::vector<ValueId> made_values(const Graph& graph) {
  std::vector<bool> given(graph.values.size());
  for (const Node& node : graph.nodes)
    if (node.form == OpInfo::Form::Plain) each_result(node, [&](ValueId id) { given[id] = true; });
  std::vector<ValueId> out;
  for (size_t id = 0; id < given.size(); ++id) {
    const Buffer::Kind kind = graph.buffers[graph.values[id].buffer].kind;
    if (!given[id] && kind == Buffer::Kind::Internal) out.push_back(static_cast<ValueId>(id));
  }
  return out;
}

void fit_made(const std::vector<Graph>& graphs, const Fit& fit, Dynamic& dynamic) {
  for (const ValueId id : made_values(graphs[0]))
    for (int d = 0; d < graphs[0].values[id].sizes.size(); ++d)
      if (auto found = fit.of(kNone, id, d)) dynamic.arguments.push_back(*found);
}

}  // namespace

bool are_independent(const Sizes& sizes) {
  std::vector<std::vector<long double>> rows;
  for (size_t i = 1; i < sizes.size(); ++i) {
    auto& row = rows.emplace_back();
    for (size_t k = 0; k < sizes[0].size(); ++k)
      row.push_back(static_cast<long double>(sizes[i][k] - sizes[0][k]));
  }
  return eliminate(rows, 0) == rows.size();
}

void fit_dynamic(ProgramData& data, const std::vector<Graph>& graphs, const Sizes& sizes) {
  const char* const again = sizes[0].empty() ? "at the second call " : "at other sizes ";
  for (const Graph& graph : graphs) check_alike(graphs[0], graph, again);
  const Fit fit(graphs, sizes);
  data.dynamic.example = sizes[0];
  for (int32_t n = 0; n < static_cast<int32_t>(graphs[0].nodes.size()); ++n)
    for (int32_t a = 0; a < static_cast<int32_t>(graphs[0].nodes[n].arguments.size()); ++a)
      fit_argument(graphs, fit, n, a, data.dynamic);
  fit_made(graphs, fit, data.dynamic);
  // What the ops give at the other sizes is what they gave there.
  for (size_t i = 1; i < graphs.size(); ++i) {
    const Graph made = with_sizes(data, sizes[i]);
    for (size_t v = 0; v < made.values.size(); ++v)
      check(made.values[v].sizes == graphs[i].values[v].sizes, "export: value ", v, " has shape ",
            made.values[v].sizes, " at other sizes, not ", graphs[i].values[v].sizes);
  }
}

}  // namespace moonlet::program
