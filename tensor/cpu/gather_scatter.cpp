// tensor/cpu/gather_scatter.cpp: scatter and its like: elements written to, added to or brought
// together at positions along one dimension, in the order of the source.
#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/gather.h"
#include "tensor/kernels_copy.h"
#include "tensor/scatter_fold.h"
#include "tensor/views.h"

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
    elements.each(begin * rows, end * rows, [&](int64_t i, int64_t place) {
      if constexpr (kFold == ScatterFold::Put)
        to[place] = from[i];
      else if constexpr (kFold == ScatterFold::Add)
        to[place] = added(to[place], from[i]);
      else
        to[place] = folded<kFold>(to[place], from[i]);
    });
  });
}

// The part of source that entries of `index` take their elements from.
Tensor used(const Tensor& source, const Tensor& index) {
  return part_of(source, index.sizes(), source.strides(), source.offset());
}

void put(const char* op, Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), op);
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

void scatter_add(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), "scatter_add");
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions("scatter_add", index, size_along(x, dim));
  const Tensor whole = summands(used(source, index));
  add_to(x, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      scatter_as<T, ScatterFold::Add>(sums, dim, positions, whole);
    });
  });
}

void scatter_fold(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce) {
  const int dim = wrap_dim(given_dim, x.dim(), "scatter_fold");
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions("scatter_fold", index, size_along(x, dim));
  const Tensor whole = summands(used(source, index));
  add_to(x, [&](Tensor& to) {
    visit<kSummed&(dtypes::real | dtypes::boolean)>(to.dtype(), [&]<class T>() {
      switch (scatter_fold_of(reduce)) {
        case ScatterFold::Multiply:
          return scatter_as<T, ScatterFold::Multiply>(to, dim, positions, whole);
        case ScatterFold::Max: return scatter_as<T, ScatterFold::Max>(to, dim, positions, whole);
        default: return scatter_as<T, ScatterFold::Min>(to, dim, positions, whole);
      }
    });
  });
}

}  // namespace moonlet::cpu
