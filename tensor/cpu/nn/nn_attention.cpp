// tensor/cpu/nn/nn_attention.cpp: the CPU kernels of attention and its gradients by blocks of
// queries and keys, so that no more of the (l, s) scores than a block is ever held (Dao et al.
// 2022, arXiv:2205.14135).
#include <limits>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/signals.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/nn/nn_attention_rows.h"
#include "tensor/kernels_nn.h"

namespace moonlet::cpu {

namespace {

constexpr int64_t kQueries = thresholds::nn::kQueries, kKeys = thresholds::nn::kKeys;

// The offset of an entry of the batch, counted in row order.
int64_t offset_of(int64_t entry, const Dims& sizes, const Dims& strides) {
  int64_t out = 0;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    out += entry % sizes[d] * strides[d];
    entry /= sizes[d];
  }
  return out;
}

Dims batch_of(const Tensor& x) { return {x.sizes().data(), x.dim() - 2}; }

// A tensor of matrices; `strides` are those of the whole batch.
struct Matrices {
  Tensor held;
  Dims strides;

  Matrices(const Tensor& x, const Dims& batch)
      : held(x),
        strides(broadcast_strides(batch_of(x), {x.strides().data(), x.dim() - 2}, batch)) {}
  // Rows [first, first + count) of the matrix at that offset of the batch.
  Matrix rows(int64_t offset, int64_t first, int64_t count) const {
    Matrix m = matrix_of(held);
    m.rows = count;
    if (held.numel() > 0)
      m.data += (offset + first * m.row_stride) * static_cast<int64_t>(size_of(held.dtype()));
    return m;
  }
};

bool in_rows(const Tensor& x) { return x.size(-1) <= 1 || x.stride(-1) == 1; }

// x in the dtype that is computed in, the elements of a row one after the other.
Tensor readable(const Tensor& x, DType compute) {
  return x.dtype() == compute && in_rows(x) ? x : converted(x, compute);
}

// Where a result is computed; `write_back` brings it to y.
Tensor writable(const Tensor& y, DType compute) {
  const bool fits = y.dtype() == compute && in_rows(y) && is_dense(y.sizes(), y.strides());
  return fits ? y : empty_plain(y.sizes(), {compute, y.device()}, "attention");
}

// Dropout of the weights.
struct Dropout {
  Tensor states;  // undefined without dropout
  Dims strides;   // of the batch
  draws::Under dropped;
  double kept;

  Dropout(double p, const Tensor& given, const Dims& batch)
      : dropped(p), kept(draws::dropout_scale(p)) {
    if (!given.defined() || p == 0) return;
    states = contiguous(given);
    strides =
        broadcast_strides(batch_of(states), {states.strides().data(), states.dim() - 2}, batch);
  }
  // Of the scores of an entry, by its offset, from `row` and `col` of `columns` on.
  std::optional<ScoreDropout> at(int64_t offset, int64_t row, int64_t col, int64_t columns) const {
    if (!states.defined()) return std::nullopt;
    const int64_t* state = states.elements<int64_t>() + offset;
    const int64_t blocks = draws::row_blocks(columns);
    return ScoreDropout{{static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1])},
                        static_cast<uint64_t>(row * blocks + col / 4),
                        static_cast<uint64_t>(blocks),
                        dropped,
                        kept};
  }
};

// The arguments as the blocks read them.
struct Attention {
  DType compute;
  Dims batch;
  Matrices query, key, value;
  Tensor mask;
  Dims mask_strides;  // of the batch, the queries and the keys
  bool causal;
  double scale;
  Dropout dropout;

  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& given_mask,
            const Dims& whole_batch, bool is_causal, double factor, double dropout_p,
            const Tensor& states)
      : compute(compute_dtype(q.dtype())),
        batch(whole_batch),
        query(readable(q, compute), batch),
        key(readable(k, compute), batch),
        value(readable(v, compute), batch),
        causal(is_causal),
        scale(factor),
        dropout(dropout_p, states, batch) {
    if (!given_mask.defined()) return;
    mask = given_mask.dtype() == DType::Bool ? given_mask : in_dtype(given_mask, compute);
    Dims sizes = batch;
    sizes.push_back(queries());
    sizes.push_back(keys());
    mask_strides = broadcast_strides(mask.sizes(), mask.strides(), sizes);
  }

  bool wide() const { return compute == DType::Float64; }
  int64_t queries() const { return query.held.size(-2); }
  int64_t keys() const { return key.held.size(-2); }
  // The elements from one row of a block's scores to the next.
  int64_t score_stride() const {
    return (std::min(keys(), kKeys) + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
  }
  // The multiplications of `rows` queries.
  int64_t work(int64_t rows) const {
    const double all =
        double(rows) * double(keys()) * double(query.held.size(-1) + value.held.size(-1) + 1);
    return static_cast<int64_t>(std::min(all, 0x1p62));
  }
  int64_t mask_offset(int64_t entry) const {
    return mask.defined() ? offset_of(entry, batch, mask_strides) : 0;
  }
  int64_t states_offset(int64_t entry) const {
    return dropout.states.defined() ? offset_of(entry, batch, dropout.strides) : 0;
  }
};

// The rows [first, first + rows) of the queries and keys [key, key + keys) of an entry.
struct Position {
  int64_t mask_offset, states_offset, first, rows, key, keys;
};

ScoreBlock block_at(const Attention& in, const Tensor& scores, const Position& at) {
  ScoreBlock block{};
  block.scores = scores.raw();
  block.rows = at.rows;
  block.keys = at.keys;
  block.stride = in.score_stride();
  block.causal = in.causal;
  block.seen = in.causal ? at.first + 1 - at.key : at.keys;
  block.dropout = in.dropout.at(at.states_offset, at.first, at.key, in.keys());
  if (in.mask.defined()) {
    const int rank = in.batch.size();
    block.mask_is_bool = in.mask.dtype() == DType::Bool;
    block.mask_row = in.mask_strides[rank];
    block.mask_col = in.mask_strides[rank + 1];
    block.mask =
        in.mask.raw() + (at.mask_offset + at.first * block.mask_row + at.key * block.mask_col) *
                            static_cast<int64_t>(size_of(in.mask.dtype()));
  }
  return block;
}

Matrix scores_of(const ScoreBlock& b, const Tensor& memory) {
  return {memory.raw(), b.rows, b.keys, b.stride, 1};
}

// The keys that any of the queries before `end` sees.
int64_t visible_keys(const Attention& in, int64_t end) {
  return in.causal ? std::min(in.keys(), end) : in.keys();
}

// Calls body(first, count) for the blocks of [0, count), once also where that is empty. Signals are
// blocked for all products of a block at once.
template <class Body>
void each_key_block(int64_t count, Body&& body) {
  int64_t first = 0;
  do {
    if (first > 0) stop_if_requested();
    const SignalsBlocked blocked;
    body(first, std::min(kKeys, count - first));
    first += kKeys;
  } while (first < count);
}

// The memory of a thread: a block of scores, and numbers for each query of it.
struct Scratch {
  Tensor scores, top, sum, factor;
  explicit Scratch(const Attention& in)
      : scores(empty_plain({kQueries, in.score_stride()}, {in.compute, {}}, "attention")),
        top(empty_plain({kQueries}, {in.compute, {}}, "attention")),
        sum(empty_plain({kQueries}, {in.compute, {}}, "attention")),
        factor(empty_plain({kQueries}, {in.compute, {}}, "attention")) {}
  void start() {
    visit<dtypes::floating & ~dtypes::reduced_floating>(top.dtype(), [&]<class T>() {
      std::fill_n(top.elements<T>(), kQueries, -std::numeric_limits<T>::infinity());
      std::fill_n(sum.elements<T>(), kQueries, T(0));
    });
  }
};

// The results of the queries [first, first + rows) of an entry.
void attend(const Attention& in, int64_t entry, int64_t first, int64_t rows, Scratch& scratch,
            const Matrices& y, char* logsumexp) {
  const int64_t of_key = offset_of(entry, in.batch, in.key.strides),
                of_value = offset_of(entry, in.batch, in.value.strides);
  const Matrix query = in.query.rows(offset_of(entry, in.batch, in.query.strides), first, rows);
  const Matrix out = y.rows(offset_of(entry, in.batch, y.strides), first, rows);
  const int64_t of_mask = in.mask_offset(entry), of_states = in.states_offset(entry);
  scratch.start();
  each_key_block(visible_keys(in, first + rows), [&](int64_t key, int64_t keys) {
    const ScoreBlock block =
        block_at(in, scratch.scores, {of_mask, of_states, first, rows, key, keys});
    const Matrix scores = scores_of(block, scratch.scores);
    gemm(in.compute, in.scale, query, transposed(in.key.rows(of_key, key, keys)), 0, scores);
    attention_weights(in.wide(), block, scratch.top.raw(), scratch.sum.raw(), scratch.factor.raw());
    if (key > 0)
      scale_rows(in.wide(), out.data, rows, out.cols, out.row_stride, scratch.factor.raw());
    gemm(in.compute, 1, scores, in.value.rows(of_value, key, keys), key > 0 ? 1 : 0, out);
  });
  attention_ends(in.wide(), rows, scratch.top.raw(), scratch.sum.raw(), scratch.factor.raw(),
                 logsumexp);
  scale_rows(in.wide(), out.data, rows, out.cols, out.row_stride, scratch.factor.raw());
}

}  // namespace

void flash_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& attn_mask, bool is_causal, double scale, double dropout_p,
                     const Tensor& states, Tensor& y, Tensor& logsumexp) {
  if (logsumexp.numel() == 0) return;
  const Attention in(query, key, value, attn_mask, batch_of(y), is_causal, scale, dropout_p,
                     states);
  Tensor work = writable(y, in.compute), sums = workspace(logsumexp, in.compute);
  const Matrices out(work, in.batch);
  const int64_t queries = in.queries(), blocks = (queries + kQueries - 1) / kQueries,
                bytes = static_cast<int64_t>(size_of(in.compute));
  parallel_for(sums.numel() / queries * blocks, grain_for(in.work(std::min(queries, kQueries))),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch(in);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t entry = i / blocks, turn = i % blocks;
                   // From both ends in turn, so that with is_causal neighbours cost as much.
                   const int64_t block = turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2;
                   const int64_t first = block * kQueries,
                                 rows = std::min(kQueries, queries - first);
                   attend(in, entry, first, rows, scratch, out,
                          sums.raw() + (entry * queries + first) * bytes);
                 }
               });
  write_back(y, work);
  write_back(logsumexp, sums);
}

namespace {

// The results of the backward pass and what it reads besides the arguments.
struct Backward {
  Matrices grad, y, by_query, by_key, by_value;
  Tensor logsumexp;
};

// The offsets of an entry of the batch.
struct Offsets {
  int64_t query, key, value, grad, y, by_query, by_key, by_value, mask, states, entry;
};

// Adds what the queries [first, first + rows) of an entry give to its gradients.
void attend_back(const Attention& in, const Backward& b, const Offsets& at, int64_t first,
                 int64_t rows, Scratch& scratch, const Tensor& gradients) {
  const Matrix query = in.query.rows(at.query, first, rows),
               grad = b.grad.rows(at.grad, first, rows), y = b.y.rows(at.y, first, rows),
               by_query = b.by_query.rows(at.by_query, first, rows);
  const char* logsumexp = b.logsumexp.raw() + (at.entry * in.queries() + first) *
                                                  static_cast<int64_t>(size_of(in.compute));
  dot_rows(in.wide(), grad.data, grad.row_stride, y.data, y.row_stride, rows, y.cols,
           scratch.sum.raw());
  each_key_block(visible_keys(in, first + rows), [&](int64_t first_key, int64_t keys) {
    const ScoreBlock block =
        block_at(in, scratch.scores, {at.mask, at.states, first, rows, first_key, keys});
    const Matrix weights = scores_of(block, scratch.scores),
                 by_scores = scores_of(block, gradients);
    const Matrix key = in.key.rows(at.key, first_key, keys);
    gemm(in.compute, in.scale, query, transposed(key), 0, weights);
    gemm(in.compute, 1, grad, transposed(in.value.rows(at.value, first_key, keys)), 0, by_scores);
    attention_backward(in.wide(), block, gradients.raw(), logsumexp, scratch.sum.raw());
    gemm(in.compute, 1, transposed(weights), grad, 1,
         b.by_value.rows(at.by_value, first_key, keys));
    gemm(in.compute, in.scale, by_scores, key, 1, by_query);
    gemm(in.compute, in.scale, transposed(by_scores), query, 1,
         b.by_key.rows(at.by_key, first_key, keys));
  });
}

// The batch as entries whose gradients nobody shares, and within each of them those that share one,
// as a tensor is broadcast over them.
struct SharedBatch {
  Dims apart, shared;

  SharedBatch(const Dims& batch, std::initializer_list<Dims> of_tensors)
      : apart(batch), shared(Dims::filled(batch.size(), 1)) {
    for (const Dims& sizes : of_tensors)
      for (int d = 0; d < batch.size(); ++d) {
        const int own = d - (batch.size() - sizes.size());
        if (own >= 0 && sizes[own] == batch[d]) continue;
        shared[d] = batch[d];
        apart[d] = 1;
      }
  }
  int64_t offset(int64_t entry, int64_t within, const Dims& strides) const {
    return offset_of(entry, apart, strides) + offset_of(within, shared, strides);
  }
};

Offsets offsets_at(const Attention& in, const Backward& b, const SharedBatch& batch, int64_t entry,
                   int64_t within) {
  const auto of = [&](const Dims& strides) { return batch.offset(entry, within, strides); };
  return {.query = of(in.query.strides),
          .key = of(in.key.strides),
          .value = of(in.value.strides),
          .grad = of(b.grad.strides),
          .y = of(b.y.strides),
          .by_query = of(b.by_query.strides),
          .by_key = of(b.by_key.strides),
          .by_value = of(b.by_value.strides),
          .mask = in.mask.defined() ? of(in.mask_strides) : 0,
          .states = in.dropout.states.defined() ? of(in.dropout.strides) : 0,
          .entry = of(contiguous_strides(in.batch))};
}

}  // namespace

void flash_attention_grads(const Tensor& grad, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& attn_mask, const Tensor& y,
                           const Tensor& logsumexp, bool is_causal, double scale, double dropout_p,
                           const Tensor& states, Tensor& grad_query, Tensor& grad_key,
                           Tensor& grad_value) {
  const Attention in(query, key, value, attn_mask, batch_of(y), is_causal, scale, dropout_p,
                     states);
  Tensor* const results[] = {&grad_query, &grad_key, &grad_value};
  Tensor work[3];
  for (int i = 0; i < 3; ++i) {
    work[i] = writable(*results[i], in.compute);
    if (work[i].numel() > 0)
      zero_bytes(work[i].raw(), work[i].numel() * static_cast<int64_t>(size_of(in.compute)));
  }
  const Backward b{.grad = {readable(grad, in.compute), in.batch},
                   .y = {readable(y, in.compute), in.batch},
                   .by_query = {work[0], in.batch},
                   .by_key = {work[1], in.batch},
                   .by_value = {work[2], in.batch},
                   .logsumexp = converted(logsumexp, in.compute)};
  const SharedBatch batch(in.batch, {batch_of(query), batch_of(key), batch_of(value)});
  const int64_t entries = logsumexp.numel() == 0 ? 0 : numel_of(batch.apart, "attention"),
                shared = numel_of(batch.shared, "attention");
  parallel_for(entries, grain_for(in.work(in.queries())), [&](int64_t begin, int64_t end) {
    Scratch scratch(in);
    const Tensor gradients = empty_plain(scratch.scores.sizes(), {in.compute, {}}, "attention");
    for (int64_t i = begin; i < end; ++i)
      for (int64_t within = 0; within < shared; ++within) {
        const Offsets at = offsets_at(in, b, batch, i, within);
        for (int64_t first = 0; first < in.queries(); first += kQueries)
          attend_back(in, b, at, first, std::min(kQueries, in.queries() - first), scratch,
                      gradients);
      }
  });
  for (int i = 0; i < 3; ++i) write_back(*results[i], work[i]);
}

}  // namespace moonlet::cpu
