// tensor/program/passes/attention.cpp: softmax(q k^T * s) v, written out in products, becomes the
// op that holds no more than a block of the scores. Its sums run in another order.
#include <string_view>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

bool is(const Node& node, std::string_view name) {
  return node.form == OpInfo::Form::Plain && node.numbers == kNone && node.op->name == name;
}

class Attention {
 public:
  explicit Attention(Graph& graph) : graph_(graph), effects_(graph) {}

  bool run() {
    bool any = false;
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at) any = merge(at) || any;
    return any;
  }

 private:
  // The node that gives what node `user` reads at argument i, where nothing else reads or writes
  // it.
  const Node* only_giver(const Node& user, int i) const {
    const ValueId id = tensor_argument(user, i);
    if (id == kNone || effects_.giver(id) == kNone) return nullptr;
    const BufferId buffer = graph_.values[id].buffer;
    if (effects_.of(buffer).size() != 2 || effects_.maker(buffer) != effects_.giver(id))
      return nullptr;
    return &graph_.nodes[effects_.giver(id)];
  }

  // The factor of a product with a number, or of a quotient by one.
  static bool take_scale(const Node& node, double& scale) {
    if (!is(node, "mul") && !is(node, "div")) return false;
    const auto* boxed = std::get_if<BoxedValue>(&node.arguments[1]);
    const auto* number = boxed == nullptr ? nullptr : std::get_if<Scalar>(boxed);
    if (number == nullptr || number->is_complex()) return false;
    scale = is(node, "mul") ? number->to_double() : 1 / number->to_double();
    return true;
  }

  // What a value is with its last two dims the other way around, if it is a view of such.
  ValueId untransposed(ValueId id) const {
    const int giver = id == kNone ? kNone : effects_.giver(id);
    if (giver == kNone || !is_view(graph_.nodes[giver])) return kNone;
    const ValueId base = tensor_argument(graph_.nodes[giver], 0);
    if (base == kNone) return kNone;
    const Value &from = graph_.values[base], &to = graph_.values[id];
    const int rank = to.sizes.size();
    if (from.sizes.size() != rank || rank < 2 || from.offset != to.offset) return kNone;
    for (int d = 0; d < rank; ++d) {
      const int other = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
      if (from.sizes[d] != to.sizes[other] || from.strides[d] != to.strides[other]) return kNone;
    }
    return base;
  }

  bool merge(int at) {
    Node& product = graph_.nodes[at];
    if (!is(product, "bmm")) return false;
    const Node* const weights = only_giver(product, 0);
    if (weights == nullptr || !is(*weights, "softmax")) return false;
    const auto* dim = std::get_if<BoxedValue>(&weights->arguments[1]);
    if (dim == nullptr || std::get<int64_t>(*dim) != 2) return false;
    double scale = 1;
    const Node* scores = only_giver(*weights, 0);
    if (scores != nullptr && take_scale(*scores, scale)) scores = only_giver(*scores, 0);
    if (scores == nullptr || !is(*scores, "bmm")) return false;
    const ValueId query = tensor_argument(*scores, 0),
                  key = untransposed(tensor_argument(*scores, 1)),
                  value = tensor_argument(product, 1);
    const int first = effects_.giver(only_result(*scores));
    return fits(query, key, value, only_result(product)) && stay(query, first, at) &&
           stay(key, first, at) && put(product, query, key, value, scale);
  }

  bool stay(ValueId id, int after, int before) const {
    return !effects_.is_written(id, after, before);
  }

  // Floats of one dtype that the op computes in, and a result that lies as the product's.
  bool fits(ValueId query, ValueId key, ValueId value, ValueId y) const {
    if (query == kNone || key == kNone || value == kNone || y == kNone) return false;
    const Value& q = graph_.values[query];
    return (q.dtype == DType::Float32 || q.dtype == DType::Float64) &&
           graph_.values[key].dtype == q.dtype && graph_.values[value].dtype == q.dtype &&
           is_contiguous(q.sizes, q.strides) &&
           is_contiguous(graph_.values[y].sizes, graph_.values[y].strides);
  }

  bool put(Node& product, ValueId query, ValueId key, ValueId value, double scale) {
    const RawOp* const fused = find_raw_op("flash_attention");
    if (fused == nullptr) return false;  // a build of chosen ops, without it
    const Value y = graph_.values[only_result(product)];
    Value sums{kNone, y.dtype, {y.sizes.data(), y.sizes.size() - 1}, {}, 0};
    sums.strides = contiguous_strides(sums.sizes);
    sums.buffer = static_cast<BufferId>(graph_.buffers.size());
    graph_.buffers.push_back(
        {Buffer::Kind::Internal, graph_.buffers[y.buffer].device,
         numel_of(sums.sizes, "attention") * static_cast<int64_t>(size_of(sums.dtype))});
    graph_.values.push_back(sums);
    const auto logsumexp = static_cast<ValueId>(graph_.values.size()) - 1;
    product.op = fused;
    product.arguments = {ValueRef{query},   ValueRef{key},     ValueRef{value}, BoxedValue(),
                         BoxedValue(false), BoxedValue(scale), BoxedValue(0.0), BoxedValue()};
    product.results = {product.results[0], ValueRef{logsumexp}};
    return true;
  }

  Graph& graph_;
  const Effects effects_;  // of before
};

}  // namespace

bool merge_attention(Graph& graph, const PassOptions& options) {
  return !options.same_bits && Attention(graph).run();
}

}  // namespace moonlet::program
