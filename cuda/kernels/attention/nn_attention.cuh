// cuda/kernels/attention/nn_attention.cuh: attention and its gradients on the host: their arguments
// as kernels take them, how wide the tiles are, and launches.
#pragma once

#include <algorithm>

#include "cuda/kernels/attention/nn_attention_tiles.cuh"
#include "cuda/runtime/device.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_create.h"
#include "tensor/kernels_nn.h"
#include "tensor/runtime/float32_precision.h"

namespace moonlet::cuda::attention {

inline Dims batch_of(const Tensor& x) { return {x.sizes().data(), x.dim() - 2}; }

// Whether a batch has more dimensions than kernels read.
inline bool has_many_dims(const Dims& batch) {
  return std::count_if(batch.begin(), batch.end(), [](int64_t n) { return n > 1; }) > kBatchDims;
}
// The sizes of x, a matrix for each entry, once for each entry of a batch.
inline Dims repeated(const Tensor& x, const Dims& batch) {
  Dims out = batch;
  out.push_back(x.dim() < 2 ? 1 : x.size(-2));
  out.push_back(x.dim() < 1 ? 1 : x.size(-1));
  return out;
}
// x so often, with the entries in a row: what has few dimensions.
inline Tensor in_entries(const Tensor& x, const Dims& batch) {
  if (!x.defined()) return x;
  const Dims whole = repeated(x, batch);
  const Tensor out =
      contiguous(alias(x, whole, broadcast_strides(x.sizes(), x.strides(), whole), x.offset()));
  const Dims sizes{numel_of(batch, "attention"), whole[whole.size() - 2], whole.back()};
  return alias(out, sizes, contiguous_strides(sizes), out.offset());
}

// x with the elements of a row side by side.
inline bool lies_in_rows(const Tensor& x) { return x.size(-1) <= 1 || x.stride(-1) == 1; }
inline Tensor in_rows(const Tensor& x) { return lies_in_rows(x) ? x : contiguous(x); }

inline Rows rows_of(const Tensor& x) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  Rows out{x.raw(), x.stride(-2), x.size(-1), aligned_to(x.raw(), 16)};
  for (int d = 0; d < x.dim() - 1; ++d)
    out.packed = out.packed && (x.size(d) == 1 || x.stride(d) * bytes % 16 == 0);
  return out;
}

// x as kernels read it, whose rows are packed: a copy where it lies otherwise.
inline Tensor in_packed_rows(const Tensor& x) {
  if (x.numel() == 0 || (lies_in_rows(x) && rows_of(x).packed)) return x;
  const int64_t pack = 16 / static_cast<int64_t>(size_of(x.dtype()));
  Dims sizes = x.sizes();
  sizes[x.dim() - 1] = (x.size(-1) + pack - 1) / pack * pack;
  const Tensor whole = empty_plain(sizes, {x.dtype(), x.device()}, "attention");
  Tensor out = alias(whole, x.sizes(), whole.strides(), whole.offset());
  copy(out, x);
  return out;
}

// How the weights are dropped, if there are states.
struct Dropout {
  double p;
  Tensor states;
};

// Tensors over a batch, each with its strides over the whole of it.
struct Batch {
  Dims sizes;
  Dims strides[kOperands];
  Rows rows[kOperands];
  Mask mask;
  Tensor kept[kOperands];  // copies that kernels read
  int64_t queries, keys;
  double dropout_p = 0;

  Batch(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& given_mask,
        const Dropout& dropout, const Dims& whole)
      : sizes(whole), queries(query.size(-2)), keys(key.size(-2)) {
    for (Dims& each : strides) each = Dims::filled(sizes.size(), 0);
    read(kQuery, query);
    read(kKey, key);
    read(kValue, value);
    strides[kEntry] = contiguous_strides(sizes);
    for (int d = 0; d < sizes.size(); ++d) strides[kEntry][d] *= queries;
    if (given_mask.defined()) read_mask(given_mask, compute_dtype(query.dtype()));
    if (!dropout.states.defined()) return;
    dropout_p = dropout.p;
    kept[kStates] = contiguous(dropout.states);
    set(kStates, kept[kStates]);
  }

  // The operand is x, whose rows lie in rows.
  void set(Operand o, const Tensor& x) {
    rows[o] = rows_of(x);
    strides[o] = broadcast_strides(batch_of(x), {x.strides().data(), x.dim() - 2}, sizes);
  }
  void read(Operand o, const Tensor& x) {
    kept[o] = in_packed_rows(x);
    set(o, kept[o]);
  }

  // Those of the widest rows.
  int64_t columns() const { return std::max(rows[kKey].columns, rows[kValue].columns); }

  template <class C>
  Problem<C> problem(const Dims& apart, const Dims& shared, double scale, bool causal) const {
    Problem<C> out;
    out.apart = over(apart);
    out.shared = over(shared);
    out.entries = numel_of(apart, "attention");
    out.within = numel_of(shared, "attention");
    out.queries = queries;
    out.keys = keys;
    std::copy(rows, rows + kOperands, out.rows);
    out.mask = mask;
    // Products of no columns are 0, whatever the scale.
    out.scale = rows[kQuery].columns == 0 ? C(0) : static_cast<C>(scale);
    out.causal = causal;
    out.row_blocks = draws::row_blocks(keys);
    out.dropped = draws::Under(dropout_p);
    out.kept = static_cast<C>(draws::dropout_scale(dropout_p));
    if (out.dropped.any) out.states = kept[kStates].elements<int64_t>();
    return out;
  }

 private:
  BatchGeometry over(const Dims& part) const {
    const auto whole = [&]<size_t... kAt>(std::index_sequence<kAt...>) {
      return geometry(part, strides[kAt]...);
    }
    (std::make_index_sequence<kOperands>());
    BatchGeometry out;
    out.rank = whole.rank;
    for (int d = 0; d < whole.rank; ++d) {
      out.sizes[d] = whole.sizes[d];
      for (int t = 0; t < kOperands; ++t) out.strides[t][d] = whole.strides[t][d];
    }
    return out;
  }

  void read_mask(const Tensor& given, DType compute) {
    const DType t = given.dtype();
    const bool known =
        t == DType::Bool || t == DType::Float16 || t == DType::BFloat16 || t == compute;
    const Tensor& x = kept[kMask] = known ? given : converted(given, compute);
    Dims all = sizes;
    all.push_back(queries);
    all.push_back(keys);
    Dims lies = broadcast_strides(x.sizes(), x.strides(), all);
    mask = {x.raw(),
            t == DType::Bool,
            t != DType::Bool && x.dtype() != compute,
            code_of(x.dtype()),
            lies[sizes.size()],
            lies[sizes.size() + 1]};
    lies.resize(sizes.size());
    // The kernels count the mask's strides in its own elements.
    strides[kMask] = lies;
  }
};

// What becomes of products.
struct Scores {
  bool is_causal;
  double scale;
};
// Attention forward by our own kernels, whose results are set in the batch: by products of
// warpgroups, for which its rows must fit, or of warps.
void attend_by_tiles(const Call& call, const Batch& batch, DType dtype, const Scores& scores,
                     bool by_warpgroups, Tensor& logsumexp);

// What the gradients of attention are computed of, and where they and the sums of gradient times
// result go: those of query, key and value.
struct Gradients {
  Scores scores;
  const Tensor &result, &sums, &dots;
  const Tensor (&results)[3];
};
// The same for the gradients, with that of the result in the batch.
void attend_back_by_tiles(const Call& call, const Batch& batch, DType dtype, const Gradients& g,
                          bool by_warpgroups);

// The most bytes of shared memory that a block may have.
inline int shared_limit(const Call& call) {
  int bytes = 0;
  ensure(
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, call.device().index),
      call.op());
  return bytes;
}

// Calls f.template operator()<T>() with the narrowest of these tiles that hold rows of so many
// columns, or with the widest that a block has memory for.
template <bool kBackward, class... T, class F>
void visit_tiles(const Call& call, int64_t columns, F&& f) {
  const int limit = shared_limit(call);
  int chosen = 0;
  const auto consider = [&](int width, int bytes) {
    if (chosen == 0 || (chosen < columns && bytes + static_cast<int>(sizeof(State)) <= limit))
      chosen = width;
  };
  (consider(T::kWidth, kBackward ? T::kBackwardBytes : T::kForwardBytes), ...);
  static_cast<void>(((chosen == T::kWidth && (f.template operator()<T>(), true)) || ...));
}

inline int64_t parts_of(int64_t columns, int width) {
  return std::max<int64_t>(1, (columns + width - 1) / width);
}

// Blocks loop, so that no grid is too large.
template <class C>
void launch_tiles(const Call& call, void (*kernel)(Problem<C>), int bytes, int64_t rows,
                  const Problem<C>& p) {
  const int64_t blocks = p.entries * ((rows + kOwn - 1) / kOwn) * p.parts * p.splits;
  if (blocks == 0) return;
  ensure(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
         call.op());
  const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{1} << 30));
  MOONLET_LAUNCH(kernel, grid, kThreads, static_cast<size_t>(bytes), call.stream(), p);
  call.done();
}

inline bool tf32_allowed() { return float32_precision() != Float32Precision::Highest; }

}  // namespace moonlet::cuda::attention
