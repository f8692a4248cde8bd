// tensor/program/describe.cpp: formulas for flops, and the text.
#include "tensor/program/describe.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>
#include <sstream>
#include <string_view>

namespace moonlet::program {

namespace {

double numel(const Dims& sizes) {
  double n = 1;
  for (const int64_t size : sizes) n *= static_cast<double>(size);
  return n;
}

// A node's tensors, as the formulas below ask for them.
class Shapes {
 public:
  Shapes(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    if (node.form == OpInfo::Form::Out) outs_ = static_cast<int>(node.results.size());
  }

  const Dims* sizes(int i) const {
    const size_t at = static_cast<size_t>(i + outs_);
    if (at >= node_.arguments.size()) return nullptr;
    const auto* ref = std::get_if<ValueRef>(&node_.arguments[at]);
    return ref == nullptr || ref->id == kNone ? nullptr : &graph_.values[ref->id].sizes;
  }
  bool has(int i) const { return sizes(i) != nullptr; }
  double n(int i) const { return has(i) ? numel(*sizes(i)) : 0; }
  // The size of a dimension, which may count from the end.
  double size(int i, int d) const {
    const Dims& all = *sizes(i);
    return static_cast<double>(all[d < 0 ? d + all.size() : d]);
  }
  double result() const {
    double out = 0;
    each_result(node_, [&](ValueId id) { out += numel(graph_.values[id].sizes); });
    return out;
  }
  // Elements of the first result.
  double first() const {
    const auto* ref = node_.results.empty() ? nullptr : std::get_if<ValueRef>(&node_.results[0]);
    return ref == nullptr || ref->id == kNone ? 0 : numel(graph_.values[ref->id].sizes);
  }
  // The product of a list of sizes among the arguments.
  double window(int i) const {
    return numel(
        std::get<Dims>(std::get<BoxedValue>(node_.arguments[static_cast<size_t>(i + outs_)])));
  }
  bool flag(int i) const {
    const auto* value = std::get_if<BoxedValue>(&node_.arguments[static_cast<size_t>(i + outs_)]);
    const bool* const truth = value == nullptr ? nullptr : std::get_if<bool>(value);
    return truth != nullptr && *truth;
  }
  // The product of all but the first of a list of sizes among the arguments.
  double rest(int i) const {
    const Dims& all =
        std::get<Dims>(std::get<BoxedValue>(node_.arguments[static_cast<size_t>(i + outs_)]));
    return all.empty() || all[0] == 0 ? 0 : numel(all) / static_cast<double>(all[0]);
  }

 private:
  const Graph& graph_;
  const Node& node_;
  int outs_ = 0;
};

struct Formula {
  const char* op;
  double (*flops)(const Shapes& s);
};

// Pairs of a query and a key; of causal ones the query with number i sees the first i keys.
double pairs_seen(double queries, double keys, bool causal) {
  if (!causal) return queries * keys;
  const double rising = std::min(queries, keys);
  return rising * (rising + 1) / 2 + (queries - rising) * keys;
}

// Of sums of products: a multiplication and an addition each, and an addition for what is added.
constexpr Formula kProducts[] = {
    {"mm", [](const Shapes& s) { return 2 * s.result() * s.size(0, -1); }},
    {"bmm", [](const Shapes& s) { return 2 * s.result() * s.size(0, -1); }},
    {"addmm", [](const Shapes& s) { return s.result() * (2 * s.size(1, -1) + 1); }},
    {"baddbmm", [](const Shapes& s) { return s.result() * (2 * s.size(1, -1) + 1); }},
    {"mv", [](const Shapes& s) { return 2 * s.n(0); }},
    {"dot", [](const Shapes& s) { return 2 * s.n(0); }},
    {"outer", [](const Shapes& s) { return s.result(); }},
    {"linear",
     [](const Shapes& s) { return s.result() * (2 * s.size(1, 1) + (s.has(2) ? 1 : 0)); }},
    {"native_conv",
     [](const Shapes& s) { return s.result() * (2 * s.n(1) / s.size(1, 0) + (s.has(2) ? 1 : 0)); }},
    {"native_conv_relu",
     [](const Shapes& s) { return s.result() * (2 * s.n(1) / s.size(1, 0) + (s.has(2) ? 2 : 1)); }},
    {"native_conv_transpose",
     [](const Shapes& s) {
       return 2 * s.n(0) * s.n(1) / s.size(1, 0) + (s.has(2) ? s.result() : 0);
     }},
    {"native_conv_grad_weight", [](const Shapes& s) { return 2 * s.n(0) * s.rest(2); }},
    // Products with the keys and with the values, and five of softmax for each pair that is seen;
    // the backward pass has five products.
    {"flash_attention",
     [](const Shapes& s) {
       const double rows = s.size(0, -2), seen = pairs_seen(rows, s.size(1, -2), s.flag(4));
       const double pairs = rows > 0 ? s.n(0) / (s.size(0, -1) * rows) * seen : 0;
       return pairs * (2 * (s.size(0, -1) + s.size(2, -1)) + 5);
     }},
    {"flash_attention_grads",
     [](const Shapes& s) {
       const double keys = s.size(2, -2), pairs = s.n(1) / s.size(1, -1) * keys;
       return 2 * pairs * (3 * s.size(1, -1) + 2 * s.size(3, -1)) + 5 * pairs;
     }},
};
constexpr Formula kOthers[] = {
    // The largest, differences, exp, the sum, quotients.
    {"softmax", [](const Shapes& s) { return 5 * s.n(0); }},
    {"log_softmax", [](const Shapes& s) { return 5 * s.n(0); }},
    {"softmax_grad_x", [](const Shapes& s) { return 4 * s.n(0); }},
    {"log_softmax_grad_x", [](const Shapes& s) { return 4 * s.n(0); }},
    // A comparison or an addition for each element of each window.
    {"max_pool1d_with_indices", [](const Shapes& s) { return s.first() * s.window(1); }},
    {"max_pool2d_with_indices", [](const Shapes& s) { return s.first() * s.window(1); }},
    {"max_pool3d_with_indices", [](const Shapes& s) { return s.first() * s.window(1); }},
    {"avg_pool1d", [](const Shapes& s) { return s.first() * s.window(1); }},
    {"avg_pool2d", [](const Shapes& s) { return s.first() * s.window(1); }},
    {"avg_pool3d", [](const Shapes& s) { return s.first() * s.window(1); }},
    // The mean, differences, squares and their sum, quotients, the weight and the bias.
    {"native_layer_norm",
     [](const Shapes& s) { return s.n(0) * (5.0 + (s.has(2) ? 1 : 0) + (s.has(3) ? 1 : 0)); }},
    // What only moves elements.
    {"embedding", [](const Shapes&) { return 0.0; }},
    {"index_select", [](const Shapes&) { return 0.0; }},
    {"gather", [](const Shapes&) { return 0.0; }},
    {"index_copy", [](const Shapes&) { return 0.0; }},
    {"iota", [](const Shapes&) { return 0.0; }},
    {"clone", [](const Shapes&) { return 0.0; }},
    {"convert", [](const Shapes&) { return 0.0; }},
    {"copy", [](const Shapes&) { return 0.0; }},
    {"fill", [](const Shapes&) { return 0.0; }},
    {"cat", [](const Shapes&) { return 0.0; }},
};

std::optional<double> flops_of(const Graph& graph, const Node& node) {
  const Shapes shapes(graph, node);
  if (node.op->kind == OpKind::Pointwise) return shapes.result();
  const std::string_view name = node.op->name;
  for (const std::span<const Formula> list : {std::span<const Formula>(kProducts), {kOthers}})
    for (const Formula& each : list)
      if (name == each.op) return each.flops(shapes);
  // A reduction takes one step for each element.
  if (std::string_view(node.op->schema).find("bool keepdim") != std::string_view::npos)
    return shapes.n(0);
  return std::nullopt;
}

// The bytes of the elements in memory: what is broadcast counts once.
int64_t bytes_of(const Value& v) {
  auto n = static_cast<int64_t>(size_of(v.dtype));
  for (int d = 0; d < v.sizes.size(); ++d)
    if (v.strides[d] != 0 || v.sizes[d] == 0) n *= v.sizes[d];
  return n;
}

// Whether an argument is one of which an op reads as many elements as it gives.
bool is_picked_from(const Node& node, int argument) {
  const std::string_view name = node.op->name;
  return argument == 0 && (name == "embedding" || name == "index_select" || name == "gather");
}

std::string scaled(double x, const char* const* units, int count) {
  int unit = 0;
  while (x >= 999.5 && unit + 1 < count) {
    x /= 1000;
    ++unit;
  }
  char out[32];
  std::snprintf(out, sizeof out,
                unit == 0 || x >= 99.95 ? "%.0f %s"
                : x >= 9.995            ? "%.1f %s"
                                        : "%.2f %s",
                x, units[unit]);
  return out;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  return scaled(static_cast<double>(bytes), kUnits, std::size(kUnits));
}
std::string flops_text(double flops) {
  static constexpr const char* kUnits[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop"};
  return scaled(flops, kUnits, std::size(kUnits));
}

bool is_product(const Node& node) {
  const std::string_view name = node.op->name;
  return std::ranges::find(kProducts, name, &Formula::op) != std::end(kProducts);
}

Cost cost_of(const Graph& graph, const Node& node) {
  Cost out;
  if (is_view(node)) {
    out.flops = 0;
    return out;
  }
  int64_t made = 0;
  each_result(node, [&](ValueId id) { made += bytes_of(graph.values[id]); });
  for (int i = 0; i < static_cast<int>(node.arguments.size()); ++i) {
    const bool is_out = node.form == OpInfo::Form::Out && i < static_cast<int>(node.results.size());
    const auto count = [&](ValueId id) {
      const int64_t bytes = id == kNone ? 0 : bytes_of(graph.values[id]);
      if (!is_out) out.bytes_read += is_picked_from(node, i) ? std::min(bytes, made) : bytes;
      if (writes(node, i)) out.bytes_written += bytes;
    };
    if (const auto* one = std::get_if<ValueRef>(&node.arguments[i]))
      count(one->id);
    else if (const auto* list = std::get_if<ValueRefs>(&node.arguments[i]))
      for (const ValueRef& each : *list) count(each.id);
  }
  if (node.form == OpInfo::Form::Plain) out.bytes_written += made;
  out.flops = flops_of(graph, node);
  return out;
}

TotalCost cost_of(const Graph& graph) {
  TotalCost out;
  for (const Node& node : graph.nodes) {
    const Cost one = cost_of(graph, node);
    ++(is_view(node) ? out.views : out.ops);
    out.bytes_read += one.bytes_read;
    out.bytes_written += one.bytes_written;
    if (one.flops)
      out.flops += *one.flops;
    else
      ++out.unknown;
  }
  for (const Buffer& each : graph.buffers)
    (each.kind == Buffer::Kind::Input       ? out.input_bytes
     : each.kind == Buffer::Kind::Parameter ? out.parameter_bytes
                                            : out.internal_bytes) += each.bytes;
  return out;
}

std::string describe(const Graph& graph) {
  std::ostringstream out;
  int32_t line = kNone;
  for (const Node& node : graph.nodes) {
    if (node.line != line && node.line != kNone) out << graph.lines[node.line] << '\n';
    line = node.line;
    out << "  " << to_string(graph, node);
    if (!is_view(node)) {
      const Cost one = cost_of(graph, node);
      out << "  # reads " << bytes_text(one.bytes_read) << ", writes "
          << bytes_text(one.bytes_written) << ", "
          << (one.flops ? flops_text(*one.flops) : "unknown flops");
    }
    out << '\n';
  }
  const TotalCost all = cost_of(graph);
  out << all.ops << " ops, " << all.views << " views: reads " << bytes_text(all.bytes_read)
      << ", writes " << bytes_text(all.bytes_written) << ", " << flops_text(all.flops);
  if (all.unknown > 0) out << " and those of " << all.unknown << " ops that are unknown";
  out << "\nmemory: inputs " << bytes_text(all.input_bytes) << ", parameters "
      << bytes_text(all.parameter_bytes) << ", made on the way " << bytes_text(all.internal_bytes)
      << '\n';
  return out.str();
}

}  // namespace moonlet::program
