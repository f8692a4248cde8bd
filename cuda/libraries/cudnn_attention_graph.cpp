// cuda/libraries/cudnn_attention_graph.cpp: the operations of attention, softmax(query key^T scale)
// value, and of its gradients. Engines know such graphs by their operations and their order.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_attention_graph.h"

#include <utility>

namespace moonlet::cuda::cudnn {

namespace {

using Value = Graph::Value;

Rows4 turned(Rows4 x) {
  std::swap(x.sizes[2], x.sizes[3]);
  std::swap(x.strides[2], x.strides[3]);
  return x;
}

// What both graphs begin with.
class Scores {
 public:
  Scores(const Attention& a, const char* op)
      : graph(op), type(type_of(a.dtype)), causal_(a.is_causal) {
    sizes = {a.query.sizes[0], a.query.sizes[1], a.query.sizes[2], a.key.sizes[2]};
    rows = {sizes[0], sizes[1], sizes[2], 1};
  }
  Value memory(const Rows4& x) { return graph.memory(type, x.sizes, x.strides); }
  Value inner(const Dims& of) { return graph.inner(CUDNN_DATA_FLOAT, of); }
  Value number() { return graph.scalar(CUDNN_DATA_FLOAT, 4); }
  Value scores() { return inner(sizes); }
  // A new value of those sizes, computed from others.
  Value computed(const Dims& of, cudnnPointwiseMode_t mode, std::initializer_list<Value> inputs) {
    const Value y = inner(of);
    graph.pointwise(mode, inputs, y);
    return y;
  }
  Value product(Value a, Value b) {
    const Value y = scores();
    graph.matmul(a, b, y);
    return y;
  }
  // The scores of what is not seen become minus infinity.
  Value seen(Value x) {
    if (!causal_) return x;
    const Value row = graph.inner(CUDNN_DATA_INT32, sizes),
                column = graph.inner(CUDNN_DATA_INT32, sizes),
                is_seen = graph.inner(CUDNN_DATA_BOOLEAN, sizes);
    graph.indices(x, 2, row);
    graph.indices(x, 3, column);
    graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, is_seen, CUDNN_DATA_BOOLEAN);
    return computed(sizes, CUDNN_POINTWISE_BINARY_SELECT, {x, number(), is_seen});
  }

  Graph graph;
  cudnnDataType_t type;
  Dims sizes, rows;  // of the scores, and of a number for each query

 private:
  bool causal_;
};

// Gradients of the heads of key or value, each by its own query's head, into those that are shared.
Value own_heads(Scores& s, const Rows4& shared, Value result) {
  if (shared.sizes[1] == s.sizes[1]) return result;
  Dims own = shared.sizes;
  own[1] = s.sizes[1];
  return s.graph.inner(s.type, own);
}
void add_heads(Scores& s, Value own, Value result) {
  if (own != result) s.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, own, result);
}

// Scores turned around, in the type in which they are multiplied.
Value turned_scores(Scores& s, Value x) {
  const Dims& n = s.sizes;
  const Value y =
      s.graph.inner(s.type, {n[0], n[1], n[3], n[2]}, {n[1] * n[2] * n[3], n[2] * n[3], 1, n[3]});
  s.graph.reshape(x, y);
  return y;
}

}  // namespace

Graph attention_graph(const Attention& a, const char* op) {
  Scores s(a, op);
  Graph& g = s.graph;
  const Value query = s.memory(a.query), key = s.memory(turned(a.key)), value = s.memory(a.value),
              result = s.memory(a.result), sums = g.memory(CUDNN_DATA_FLOAT, s.rows, a.sums),
              scale = s.number();
  const Value scores =
      s.seen(s.computed(s.sizes, CUDNN_POINTWISE_MUL, {s.product(query, key), scale}));
  const Value top = s.inner(s.rows);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
  const Value shifted = s.computed(s.sizes, CUDNN_POINTWISE_SUB, {scores, top});
  const Value powers = s.computed(s.sizes, CUDNN_POINTWISE_EXP, {shifted}), sum = s.inner(s.rows);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  const Value log_sum = s.computed(s.rows, CUDNN_POINTWISE_LOG, {sum});
  g.pointwise(CUDNN_POINTWISE_ADD, {top, log_sum}, sums);
  const Value weights = g.inner(s.type, s.sizes);
  g.pointwise(CUDNN_POINTWISE_DIV, {powers, sum}, weights);
  g.matmul(weights, value, result);
  return std::move(s.graph);
}

Graph attention_grads_graph(const AttentionGrads& a, const char* op) {
  Scores s(a.of, op);
  Graph& g = s.graph;
  const Dims& queries = a.of.query.sizes;
  const Rows4 turned_key = turned(a.of.key);
  const Value query = s.memory(a.of.query), key = s.memory(turned_key),
              value = s.memory(turned(a.of.value)), result = s.memory(a.of.result),
              sums = g.memory(CUDNN_DATA_FLOAT, s.rows, a.of.sums), grad = s.memory(a.grad),
              grad_query = s.memory(a.grad_query), grad_key = s.memory(a.grad_key),
              grad_value = s.memory(a.grad_value),
              dots = g.memory(CUDNN_DATA_FLOAT, s.rows, contiguous_strides(s.rows)),
              total = g.memory(CUDNN_DATA_FLOAT, queries, contiguous_strides(queries)),
              one = s.number(), scale = s.number();
  // dots = sum of grad * result over a row.
  const Value products = s.computed(a.of.result.sizes, CUDNN_POINTWISE_MUL, {grad, result}),
              row_sums = s.inner(s.rows);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, row_sums);
  g.pointwise(CUDNN_POINTWISE_MUL, {row_sums, one}, dots);
  // weights = exp(score - log sum); the value's gradient is weights^T grad.
  const Value scores = s.computed(s.sizes, CUDNN_POINTWISE_MUL, {s.product(query, key), scale});
  const Value shifted = s.seen(s.computed(s.sizes, CUDNN_POINTWISE_SUB, {scores, sums}));
  const Value weights = s.computed(s.sizes, CUDNN_POINTWISE_EXP, {shifted});
  const Value turned_weights = turned_scores(s, weights);
  const Value by_value = own_heads(s, a.grad_value, grad_value);
  g.matmul(turned_weights, grad, by_value);
  add_heads(s, by_value, grad_value);
  // The scores' gradient is weights * (grad value^T - dots).
  const Value centred = s.computed(s.sizes, CUDNN_POINTWISE_SUB, {s.product(grad, value), dots});
  const Value weighted = s.computed(s.sizes, CUDNN_POINTWISE_MUL, {centred, weights});
  const Value by_scores = s.computed(s.sizes, CUDNN_POINTWISE_MUL, {weighted, scale});
  const Value turned_grads = turned_scores(s, by_scores);
  const Value by_key = own_heads(s, a.grad_key, grad_key);
  g.matmul(turned_grads, query, by_key);
  add_heads(s, by_key, grad_key);
  const Value rows_of_key = g.inner(s.type, a.of.key.sizes, a.of.key.strides);
  g.reshape(key, rows_of_key);
  g.matmul(by_scores, rows_of_key, total);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, {total}, grad_query);
  return std::move(s.graph);
}

}  // namespace moonlet::cuda::cudnn

#endif
