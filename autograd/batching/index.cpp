// autograd/batching/index.cpp: selections and assignments by positions, for a batch.
#include "autograd/batching.h"
#include "autograd/uses_batching_index.h"

namespace moonlet::batching {

namespace {
int64_t dim_of(const BatchCall& call) { return std::get<int64_t>(call.arguments[1]); }
}  // namespace

// `x, dim, index`: positions of each sample are gathered.
void index_select(BatchCall& call) {
  if (call.rank(0) == 0) return call.loop();
  const int dim = static_cast<int>(dim_of(call)) + 1;
  const Tensor x = call.front(0);
  if (!call.batched(2)) {
    call.put(0, x);
    call.put(1, int64_t{dim});
    return call.call();
  }
  Tensor index = call.front(2);
  if (index.dim() == 1) index = unsqueeze(index, 1);
  Dims column = Dims::filled(x.dim(), 1), sizes = x.sizes();
  column[0] = call.size();
  column[dim] = sizes[dim] = index.size(1);
  call.results = {gather(x, dim, expand(reshape(index, column), sizes))};
}

// `x, dim, index, source ...`: the same positions for all samples.
void indexed(BatchCall& call) {
  call.check_written();
  if (call.batched(2) || call.rank(0) == 0) return call.loop();
  call.put(0, call.front(0));
  call.put(1, dim_of(call) + 1);
  if (call.count() > 3 && call.has_tensor(3)) {
    Tensor source = call.front(3);
    if (source.dim() == 1) source = unsqueeze(source, 1);
    call.put(3, source);
  }
  call.call();
}

namespace {

// Where the tensors of an indexing expression stand, and what they make.
struct Indexing {
  std::vector<Tensor> indices;
  bool any_batched = false;
  bool adjacent = true;  // they stand side by side, so what they make stays in their place
  int first = -1;
  int rank = 0;  // of what they make
};

Indexing read_indexing(const BatchCall& call, int place, bool batched) {
  Indexing out;
  out.any_batched = batched;
  const auto& given = std::get<std::vector<Tensor>>(call.arguments[place]);
  const std::vector<Tensor> fronts = call.list_front(place);
  int last = -1;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    const int at = static_cast<int>(i);
    if (out.first < 0) out.first = at;
    if (last >= 0 && at != last + 1) out.adjacent = false;
    last = at;
    out.rank = std::max(out.rank, fronts[i].dim() - 1);
  }
  out.indices = batched ? fronts : given;
  if (!batched)
    for (const Tensor& index : given)
      if (index.defined()) out.rank = std::max(out.rank, index.dim());
  return out;
}

// The indices for the value: the samples' dimension is taken whole, or where they are of each
// sample, beside a column that counts the samples. False where what comes out would lie otherwise.
bool for_value(const BatchCall& call, Indexing& indexing) {
  std::vector<Tensor> out;
  if (!indexing.any_batched) {
    if (!indexing.adjacent) return false;
    out.push_back(Tensor());
    for (const Tensor& index : indexing.indices) out.push_back(index);
  } else {
    if (!indexing.adjacent || indexing.first != 0) return false;
    Dims column = Dims::filled(indexing.rank + 1, 1);
    column[0] = call.size();
    DType dtype = DType::Int64;
    Device device = call.tensor(0).device();
    Tensor samples = empty({call.size()}, {dtype, device.real()});
    iota_(samples, int64_t{1});
    out.push_back(reshape(samples, column));
    for (Tensor index : indexing.indices) {
      while (index.defined() && index.dim() < indexing.rank + 1) index = unsqueeze(index, 1);
      out.push_back(index);
    }
  }
  indexing.indices = std::move(out);
  return true;
}

}  // namespace

void index(BatchCall& call) {
  Indexing indexing = read_indexing(call, 1, call.any_list_batched());
  if (!for_value(call, indexing)) return call.loop();
  call.put(0, call.front(0));
  call.put(1, indexing.indices);
  call.call();
}

// `x, indices, values, accumulate`
void index_put(BatchCall& call) {
  call.check_written();
  Indexing indexing = read_indexing(call, 1, call.any_list_batched());
  int used = 0;
  for (const Tensor& index : indexing.indices) used += index.defined() ? 1 : 0;
  const int rank = call.rank(0) - used + indexing.rank;
  if (!for_value(call, indexing)) return call.loop();
  call.put(0, call.front(0));
  call.put(1, indexing.indices);
  if (call.batched(2)) call.put(2, call.front(2, rank));
  call.call();
}

}  // namespace moonlet::batching
