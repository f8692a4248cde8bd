// autograd/batching/attention.cpp: attention of a batch: one dimension more in front of the heads.
#include <algorithm>

#include "autograd/batching.h"
#include "autograd/uses_batching_attention.h"
#include "tensor/shapes_nn.h"

namespace moonlet::batching {

namespace {

Tensor sample_of(const BatchCall& call, int i) {
  return i < call.count() && call.has_tensor(i) ? call.sample(i) : Tensor();
}

// native_attention has none.
double dropout_of(const BatchCall& call, int i) {
  return i < call.count() ? std::get<double>(call.arguments[i]) : 0;
}

int greatest_rank(const BatchCall& call) {
  int rank = 0;
  for (int i = 0; i < call.count(); ++i)
    if (call.has_tensor(i)) rank = std::max(rank, call.rank(i));
  return rank;
}

}  // namespace

// `query, key, value, attn_mask, ..., states` broadcast: what is the same for all samples stays as
// it is.
void flash_attention(BatchCall& call) {
  constexpr int kDropout = 6, kStates = 7;
  // Their batches might fit where samples do not.
  shapes::flash_attention(sample_of(call, 0), sample_of(call, 1), sample_of(call, 2),
                          sample_of(call, 3), false, 1, dropout_of(call, kDropout),
                          sample_of(call, kStates));
  const int rank = greatest_rank(call);
  for (int i = 0; i < call.count(); ++i)
    if (call.has_tensor(i) && call.batched(i)) call.put(i, call.front(i, rank));
  call.call();
}

// `grad, query, key, value, attn_mask, y, logsumexp, ..., states`: each sample has gradients of its
// own.
void flash_attention_grads(BatchCall& call) {
  constexpr int kMask = 4, kLogsumexp = 6, kDropout = 9, kStates = 10;
  shapes::flash_attention_grads(sample_of(call, 0), sample_of(call, 1), sample_of(call, 2),
                                sample_of(call, 3), sample_of(call, 4), sample_of(call, 5),
                                sample_of(call, kLogsumexp), false, 1, dropout_of(call, kDropout),
                                sample_of(call, kStates));
  const int rank = greatest_rank(call);
  Dims sizes[3];
  for (int i = 0; i < call.count(); ++i) {
    if (!call.has_tensor(i) || ((i == kMask || i == kStates) && !call.batched(i))) continue;
    if (i >= 1 && i <= 3) sizes[i - 1] = call.front(i).sizes();
    call.put(i, call.front(i, i == kLogsumexp ? rank - 1 : rank));
  }
  call.call();
  for (int i = 0; i < 3; ++i)
    call.results[i] = reshape(std::get<Tensor>(call.results[i]), sizes[i]);
}

}  // namespace moonlet::batching
