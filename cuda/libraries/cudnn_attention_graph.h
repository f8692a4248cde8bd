// cuda/libraries/cudnn_attention_graph.h: attention and its gradients as graphs of cuDNN's
// operations, in the form in which its engines know them.
#pragma once

#include "cuda/libraries/cudnn_graph.h"

namespace moonlet::cuda::cudnn {

// Of a tensor (batch, heads, rows, columns), whose columns lie side by side.
struct Rows4 {
  Dims sizes, strides;
};

// query (b, h, l, e), key (b, k, s, e), value (b, k, s, v), results (b, h, l, v); every h / k heads
// of the query share one of key and value.
struct Attention {
  DType dtype;
  bool is_causal;  // query i sees the keys up to i
  Rows4 query, key, value, result;
  Dims sums;  // strides of the logarithms of sums (b, h, l, 1)
};

// Given when it runs: query, key, value, the result, the logarithms of sums; then the numbers scale
// and, with is_causal, minus infinity, all float32.
Graph attention_graph(const Attention& a, const char* op);

// The gradients' strides, beside those of what was computed.
struct AttentionGrads {
  Attention of;
  Rows4 grad, grad_query, grad_key, grad_value;
};

// Given when it runs: query, key, value, the result, the logarithms of sums, the result's gradient,
// the gradients of query, key and value, two workspaces of float32, (b, h, l, 1) and (b, h, l, e);
// then the numbers 1, scale and, with is_causal, minus infinity, all float32.
Graph attention_grads_graph(const AttentionGrads& a, const char* op);

}  // namespace moonlet::cuda::cudnn
