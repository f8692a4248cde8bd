// cuda/kernels/index.cu: reading and writing with tensors of positions.
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/index_plan.cuh"
#include "cuda/kernels/common/moves.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/runtime/device.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_index.h"

namespace moonlet::cuda {

namespace {

template <class T>
__global__ void index_kernel(const MOONLET_GRID_CONSTANT IndexGrid g, int64_t count, const T* x,
                             T* y) {
  for (MOONLET_EACH(i, count)) {
    const int64_t at = index_offset(g, i);
    y[i] = at < 0 ? T{} : x[at];
  }
}

// The rows of a sorted sequence, `step` elements apart or, with one for all, 0.
struct SortedRows {
  Array values;
  Positions order;  // of `values` as they would be sorted; null where they are
  int64_t count, step, width;
};

// By the CPU's steps, which matter where a sequence is in no order: NaN comes last.
template <class C>
__global__ void search_kernel(SortedRows s, int64_t count, bool right, Array x, Array y) {
  for (MOONLET_EACH(i, count)) {
    const int64_t first = i / s.width * s.step;
    const C v = x.get<C>(i);
    int64_t low = 0;
    for (int64_t left = s.count; left > 0;) {
      const int64_t half = (left + 1) / 2, middle = low + half - 1;
      left -= half;
      const int64_t at = s.order.at != nullptr ? s.order.position(first + middle) : middle;
      if (at < 0) break;
      const C other = s.values.get<C>(first + at);
      const bool is_less = right ? other <= v : other < v;
      if (is_less || (v != v && (right || other == other))) low += half;
    }
    y.set<int64_t>(i, low + 1);
  }
}

__global__ void index_target_kernel(const MOONLET_GRID_CONSTANT IndexGrid g, int64_t count,
                                    int64_t* to) {
  for (MOONLET_EACH(i, count)) to[i] = index_offset(g, i);
}

}  // namespace

void index(const Tensor& x, const std::vector<Tensor>& indices, Tensor& y) {
  const Call call(x, "index");
  const IndexedTensor indexed("index", x, indices);
  if (indexed.count == 0) return indexed.check_only(call);
  Tensor rows = y.is_contiguous() ? y : call.scratch(y.sizes(), y.dtype());
  const int64_t run = run_of(indexed.grid);
  visit_moves(run, {x.raw(), rows.raw()}, size_of(x.dtype()), [&]<class T>(int64_t packs) {
    const int64_t count = indexed.count / run * packs;
    MOONLET_LAUNCH((index_kernel<T>), blocks_for(count), kBlock, 0, call.stream(),
                   by_runs(indexed.grid, run / packs), count, reinterpret_cast<const T*>(x.raw()),
                   reinterpret_cast<T*>(rows.raw()));
  });
  call.done();
  if (!rows.is_same(y)) copy(y, rows);
}

void index_put(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
               bool accumulate) {
  if (accumulate && is_storage(x.dtype())) {  // which no kernel sums in
    Tensor wide = converted(x, compute_dtype(x.dtype()));
    index_put(wide, indices, values, true);
    return copy(x, wide);
  }
  const Call call(x, "index_put");
  with_contiguous(x, [&](Tensor& whole) {
    const IndexedTensor indexed("index_put", whole, indices);
    const Dims& result = indexed.plan.result;
    const int64_t count = indexed.count;
    if (count == 0) return indexed.check_only(call);
    const int64_t run = run_of(indexed.grid);
    Tensor source = call.scratch(result, x.dtype());
    Tensor targets = call.scratch({count / run}, DType::Int64);
    copy(source, values);
    MOONLET_LAUNCH(index_target_kernel, blocks_for(count / run), kBlock, 0, call.stream(),
                   by_runs(indexed.grid, run), count / run, targets.elements<int64_t>());
    call.done();
    scatter_ordered(call, whole, 1, whole.numel() / run, run, targets, source,
                    accumulate ? ScatterFold::Add : ScatterFold::Put);
  });
}

void searchsorted(const Tensor& sequence, const Tensor& given, bool, bool right,
                  const std::optional<std::string>& side, const Tensor& sorter, Tensor& y) {
  if (given.numel() == 0) return;
  const Call call(given, "searchsorted");
  const Tensor sorted = contiguous(sequence), x = contiguous(given);
  Tensor order;
  if (sorter.defined()) order = converted(sorter, DType::Int64);
  const int64_t n = sequence.size(-1);
  const SortedRows rows{array(sorted),
                        order.defined() ? positions_in("searchsorted", order, n) : Positions{}, n,
                        sequence.dim() == 1 ? 0 : n, sequence.dim() == 1 ? x.numel() : x.size(-1)};
  visit_device_compute<dtypes::real>(promote(sequence.dtype(), x.dtype()), [&]<class C>() {
    MOONLET_LAUNCH((search_kernel<C>), blocks_for(x.numel()), kBlock, 0, call.stream(), rows,
                   x.numel(), shapes::searches_right(right, side), array(x), array(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
