// tensor/program/passes/epilogues.cpp: a bias that is added to a product becomes part of it. A
// product that begins with its bias adds up in another order than one to which it is added, so this
// is not for who wants the same bits.
#include <string_view>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

class Epilogues {
 public:
  explicit Epilogues(Graph& graph) : graph_(graph), effects_(graph) {}

  bool run() {
    std::vector<bool> dead(graph_.nodes.size());
    bool any = false;
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at) {
      const Node& sum = graph_.nodes[at];
      if (sum.op->name != std::string_view("add") || sum.form != OpInfo::Form::Plain) continue;
      const ValueId a = tensor_argument(sum, 0), b = tensor_argument(sum, 1);
      const int product = merge(at, a, b)   ? effects_.giver(a)
                          : merge(at, b, a) ? effects_.giver(b)
                                            : kNone;
      if (product != kNone) dead[product] = any = true;
    }
    if (any) remove_nodes(graph_, dead);
    return any;
  }

 private:
  // Makes node `at`, which adds `bias` to what a product gives in `x`, that product with a bias.
  bool merge(int at, ValueId x, ValueId bias) {
    const int giver = x == kNone || bias == kNone ? kNone : effects_.giver(x);
    if (giver == kNone) return false;
    const Node& product = graph_.nodes[giver];
    const BufferId buffer = graph_.values[x].buffer;
    const ValueId y = only_result(graph_.nodes[at]);
    if (product.form != OpInfo::Form::Plain || only_result(product) != x || y == kNone ||
        effects_.of(buffer).size() != 2 || effects_.maker(buffer) != giver ||
        !same_geometry(graph_.values[x], graph_.values[y]) ||
        graph_.values[bias].dtype != graph_.values[x].dtype)
      return false;
    bool stays = true;
    each_argument(product,
                  [&](ValueId id) { stays = stays && !effects_.is_written(id, giver, at); });
    return stays && put(at, product, bias);
  }

  bool put(int at, const Node& product, ValueId bias) {
    const Value& b = graph_.values[bias];
    const std::string_view name = product.op->name;
    const ValueId y = only_result(graph_.nodes[at]);
    Node whole = product;
    whole.results = graph_.nodes[at].results;
    if (name == "linear" || name == "native_conv") {
      const ValueId weight = tensor_argument(product, 1);
      const bool is_row = name == "linear" && b.sizes.size() == 1;
      const ValueId flat = is_row ? bias : flat_channels(bias, y);
      if (tensor_argument(product, 2) != kNone || flat == kNone ||
          graph_.values[flat].sizes[0] != graph_.values[weight].sizes[0] ||
          (name == "linear") != is_row)
        return false;
      whole.arguments[2] = ValueRef{flat};
    } else if (name == "mm" && addmm_ != nullptr && can_expand(b.sizes, graph_.values[y].sizes)) {
      whole.op = addmm_;
      whole.arguments = {ValueRef{bias}, product.arguments[0], product.arguments[1],
                         BoxedValue(Scalar(1)), BoxedValue(Scalar(1))};
    } else {
      return false;
    }
    graph_.nodes[at] = std::move(whole);
    return true;
  }

  // The vector that `id`, of sizes (c, 1, ...), is a view of.
  ValueId flat_channels(ValueId id, ValueId y) const {
    const int giver = effects_.giver(id);
    if (giver == kNone || !is_view(graph_.nodes[giver])) return kNone;
    const ValueId base = tensor_argument(graph_.nodes[giver], 0);
    const Value& v = graph_.values[id];
    if (base == kNone || graph_.values[base].sizes.size() != 1) return kNone;
    const int rank = graph_.values[y].sizes.size(), channel = v.sizes.size() - (rank - 1);
    if (channel < 0 || channel > 1) return kNone;
    for (int d = 0; d < v.sizes.size(); ++d)
      if (v.sizes[d] != (d == channel ? graph_.values[base].sizes[0] : 1)) return kNone;
    return graph_.values[base].sizes[0] == graph_.values[y].sizes[1] ? base : kNone;
  }

  Graph& graph_;
  const Effects effects_;                            // of before
  const RawOp* const addmm_ = find_raw_op("addmm");  // null in a build without it
};

}  // namespace

bool merge_epilogues(Graph& graph, const PassOptions& options) {
  return !options.same_bits && Epilogues(graph).run();
}

}  // namespace moonlet::program
