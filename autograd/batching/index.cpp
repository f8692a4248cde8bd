// autograd/batching/index.cpp: selections and assignments by positions, for a batch.
#include "autograd/batching.h"
#include "autograd/uses_batching_index.h"

namespace moonlet::batching {

namespace {
int64_t dim_of(const BatchCall& call) { return std::get<int64_t>(call.arguments[1]); }
}  // namespace

namespace {
// The samples of x with at least one dimension to name.
Tensor named(const Tensor& x) { return x.dim() == 1 ? unsqueeze(x, 1) : x; }

// Positions of each sample, one dimension of them.
Tensor own_positions(const BatchCall& call) {
  const Tensor index = named(call.front(2));
  check(index.dim() == 2, call.op.name, ": index has shape ",
        Dims{index.sizes().data() + 1, index.dim() - 1}, "; one dimension expected");
  return index;
}

// Positions (samples, k) along `dim` as a tensor of `sizes`, which has k there.
Tensor spread(const Tensor& index, int dim, const Dims& sizes) {
  Dims column = Dims::filled(sizes.size(), 1);
  column[0] = sizes[0];
  column[dim] = sizes[dim];
  return expand(reshape(index, column), sizes);
}
}  // namespace

// `x, dim, index`: positions of each sample are gathered.
void index_select(BatchCall& call) {
  const int dim = static_cast<int>(dim_of(call)) + 1;
  const bool scalar = call.rank(0) == 0;
  const Tensor x = named(call.front(0));
  if (!call.batched(2)) {
    call.put(0, x);
    call.put(1, int64_t{dim});
    call.call();
  } else {
    const Tensor index = own_positions(call);
    Dims sizes = x.sizes();
    sizes[dim] = index.size(1);
    call.results = {gather(x, dim, spread(index, dim, sizes))};
  }
  // A sample without dimensions stays so.
  if (scalar) call.results[0] = squeeze(std::get<Tensor>(call.results[0]), Dims{1});
}

namespace {

// The same as the op with positions (samples, k) of each sample's own: slice by slice it is an op
// with a position for each element.
Tensor by_elements(const BatchCall& call, const Tensor& x, int dim, const Tensor& index) {
  const std::string_view name = call.op.row->name;
  Dims sizes = x.sizes();
  sizes[dim] = index.size(1);
  const Tensor at = spread(index, dim, sizes);
  if (name == "index_fill") return scatter_value(x, dim, at, std::get<Scalar>(call.arguments[3]));
  const Tensor source = named(call.front(3));
  check(source.sizes() == sizes, call.op.name, ": source has shape ",
        Dims{source.sizes().data() + 1, source.dim() - 1}, ", ",
        Dims{sizes.data() + 1, sizes.size() - 1}, " is expected");
  if (name == "index_add") return scatter_add(x, dim, at, source);
  if (name == "index_add_scaled")
    return scatter_add(x, dim, at, mul(source, std::get<Scalar>(call.arguments[4])));
  if (name == "index_copy") return scatter(x, dim, at, source);
  check(name == "index_reduce", call.op.name, ": no rule for positions of each sample");
  return scatter_reduce(x, dim, at, source, std::get<std::string>(call.arguments[4]),
                        std::get<bool>(call.arguments[5]));
}

}  // namespace

// `x, dim, index, source ...`
void indexed(BatchCall& call) {
  call.check_written();
  const bool scalar = call.rank(0) == 0;
  const int dim = static_cast<int>(dim_of(call)) + 1;
  const Tensor whole = call.front(0), x = named(whole);
  if (call.batched(2)) {
    Tensor y = by_elements(call, x, dim, own_positions(call));
    if (call.op.form == OpInfo::Form::InPlace) {
      Tensor target = x;
      copy_(target, y);
    }
    call.results = {scalar ? squeeze(y, Dims{1}) : y};
    return;
  }
  call.put(0, x);
  call.put(1, int64_t{dim});
  if (call.count() > 3 && call.has_tensor(3)) call.put(3, named(call.front(3)));
  call.call();
  if (scalar) call.results[0] = squeeze(std::get<Tensor>(call.results[0]), Dims{1});
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

Indexing read_indexing(const BatchCall& call, int position, bool batched) {
  Indexing out;
  out.any_batched = batched;
  const auto& given = std::get<std::vector<Tensor>>(call.arguments[position]);
  const std::vector<Tensor> fronts = call.list_front(position);
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
// sample, beside a column that counts the samples.
void index_value(const BatchCall& call, Indexing& indexing) {
  std::vector<Tensor> out;
  if (!indexing.any_batched) {
    out.push_back(Tensor());
    for (const Tensor& index : indexing.indices) out.push_back(index);
  } else {
    Dims column = Dims::filled(indexing.rank + 1, 1);
    column[0] = call.size();
    Tensor samples = empty({call.size()}, {DType::Int64, call.tensor(0).device().real()});
    iota_(samples, int64_t{1});
    out.push_back(reshape(samples, column));
    for (Tensor index : indexing.indices) {
      while (index.defined() && index.dim() < indexing.rank + 1) index = unsqueeze(index, 1);
      out.push_back(index);
    }
  }
  indexing.indices = std::move(out);
}

// Dimensions that move when samples are indexed at once, and where they then belong.
struct Moved {
  Dims from, to;
};

Moved moved_dims(const Indexing& indexing) {
  Moved out;
  if (!indexing.any_batched && !indexing.adjacent) {
    // What the tensors make comes first, before the samples.
    out.from.push_back(indexing.rank);
    out.to.push_back(0);
  } else if (indexing.any_batched && indexing.adjacent) {
    // The column of samples is apart from the tensors, unless these begin beside it.
    for (int i = 1; indexing.first > 0 && i <= indexing.rank; ++i) {
      out.from.push_back(i);
      out.to.push_back(indexing.first + i);
    }
  }
  return out;
}

}  // namespace

void index(BatchCall& call) {
  Indexing indexing = read_indexing(call, 1, call.any_list_batched());
  const Moved moved = moved_dims(indexing);
  index_value(call, indexing);
  call.put(0, call.front(0));
  call.put(1, indexing.indices);
  call.call();
  if (!moved.from.empty())
    call.results[0] = movedim(std::get<Tensor>(call.results[0]), moved.from, moved.to);
}

// `x, indices, values, accumulate`
void index_put(BatchCall& call) {
  call.check_written();
  Indexing indexing = read_indexing(call, 1, call.any_list_batched());
  const Moved moved = moved_dims(indexing);
  int used = 0;
  for (const Tensor& index : indexing.indices) used += index.defined() ? 1 : 0;
  const int rank = call.rank(0) - used + indexing.rank;
  index_value(call, indexing);
  call.put(0, call.front(0));
  call.put(1, indexing.indices);
  if (!moved.from.empty())
    call.put(2, movedim(call.front(2, rank), moved.to, moved.from));
  else if (call.batched(2))
    call.put(2, call.front(2, rank));
  call.call();
}

}  // namespace moonlet::batching
