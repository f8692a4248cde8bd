// tensor/cpu/index/gather_scatter.cpp: scatter and its like: elements written to, added to or
// brought together at positions along one dimension, in the order of the source.
#include <algorithm>
#include <utility>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/index/gather.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

// Writes source to x, both of dtype T, or joins it with what is there; blocks before `dim` are
// shared among threads.
template <class T, ScatterFold kFold>
void scatter_as(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  const IndexedElements elements(x, dim, positions);
  const int64_t blocks = blocks_before(positions, dim), rows = elements.rows / blocks;
  const T* from = source.elements<T>();
  T* to = x.elements<T>();
  parallel_for(blocks, grain_for(rows * elements.width * 4), [&](int64_t begin, int64_t end) {
    elements.each(begin * rows, end * rows, [=](int64_t i, int64_t position) {
      to[position] = joined<kFold>(to[position], from[i]);
    });
  });
}

// The same for few entries and 16-bit x: what comes to one position is joined in float32.
template <ScatterFold kFold>
void scatter_few(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  const IndexedElements elements(x, dim, positions);
  std::vector<std::pair<int64_t, int64_t>> entries;  // a position in x and a number in the source
  elements.each(0, elements.rows,
                [&entries](int64_t i, int64_t position) { entries.emplace_back(position, i); });
  std::sort(entries.begin(), entries.end());
  const float* from = source.elements<float>();
  visit<dtypes::reduced_floating>(x.dtype(), [&]<class T>() {
    T* to = x.elements<T>();
    for (size_t k = 0; k < entries.size();) {
      const int64_t position = entries[k].first;
      float sum = float(to[position]);
      for (; k < entries.size() && entries[k].first == position; ++k)
        sum = joined<kFold>(sum, from[entries[k].second]);
      to[position] = T(sum);
    }
  });
}

// The part of source that entries of `index` take their elements from.
Tensor used(const Tensor& source, const Tensor& index) {
  return part_of(source, index.sizes(), source.strides(), source.offset());
}

void put(const char* op, Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrapped(given_dim, x.dim());
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions(op, index, size_along(x, dim));
  const Tensor whole = contiguous(used(source, index));
  visit_bytes(x.dtype(),
              [&]<class T>() { scatter_as<T, ScatterFold::Put>(x, dim, positions, whole); });
}

}  // namespace

void scatter(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  put("scatter", x, dim, index, source);
}

void scatter_value(Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  Tensor one = empty_plain(Dims{}, options_of(x), "scatter");
  fill(one, value);
  put("scatter", x, dim, index, views::expand(one, index.sizes()));
}

namespace {

constexpr int64_t kPiece = thresholds::index::kScatterPiece;

// Joins what checked positions name of a source of their shape, all of it at once.
template <ScatterFold kFold>
void join_at(Tensor& x, int dim, const Tensor& positions, const Tensor& source) {
  const Tensor whole = summands(source);
  constexpr DTypeSet kOrdered = dtypes::real | dtypes::boolean;
  constexpr DTypeSet kAccepted = kFold == ScatterFold::Add ? dtypes::all : kOrdered;
  const auto scatter_to = [&](Tensor& to) {
    visit<kSummed & kAccepted>(to.dtype(),
                               [&]<class T>() { scatter_as<T, kFold>(to, dim, positions, whole); });
  };
  if (sum_dtype(x.dtype()) == x.dtype()) return scatter_to(x);
  if (positions.numel() < kStopBlock && positions.numel() < x.numel() / 16)
    return scatter_few<kFold>(x, dim, positions, whole);
  add_to(x, scatter_to);
}

// The same; 16-bit tensors by pieces of the first dimension, whose float32 copies stay in the
// cache.
template <ScatterFold kFold>
void join(const char* op, Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& given) {
  const int dim = wrapped(given_dim, x.dim());
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions(op, index, size_along(x, dim));
  const Tensor source = used(given, index);
  const int64_t piece = kPiece * omp_get_max_threads(), count = index.dim() ? index.size(0) : 1;
  const int64_t slice = x.numel() / (x.dim() ? x.size(0) : 1);
  if (dim == 0 || slice > piece || sum_dtype(x.dtype()) == x.dtype())
    return join_at<kFold>(x, dim, positions, source);
  run_blocks(0, count, piece / slice, [&](int64_t begin, int64_t end) {
    Tensor part = views::slice(x, 0, begin, end, 1);
    join_at<kFold>(part, dim, views::slice(positions, 0, begin, end, 1),
                   views::slice(source, 0, begin, end, 1));
  });
}

}  // namespace

void scatter_add(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  join<ScatterFold::Add>("scatter_add", x, dim, index, source);
}

void scatter_fold(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce) {
  constexpr const char* kOp = "scatter_fold";
  switch (scatter_fold_of(reduce)) {
    case ScatterFold::Multiply: return join<ScatterFold::Multiply>(kOp, x, dim, index, source);
    case ScatterFold::Max: return join<ScatterFold::Max>(kOp, x, dim, index, source);
    default: return join<ScatterFold::Min>(kOp, x, dim, index, source);
  }
}

}  // namespace moonlet::cpu
