// autograd/batching/linalg.cpp: products of a batch: those of matrices with one dimension more;
// norms of lists.
#include "autograd/batching.h"
#include "autograd/uses_batching_linalg.h"
#include "tensor/shapes_linalg.h"

namespace moonlet::batching {

namespace {

// The op's own checks, of samples: their batches might fit where they do not.
template <class F>
void check_samples(const BatchCall& call, F&& shapes_of) {
  shapes_of(call.sample(0), call.sample(1));
}

// As the value is where it is no batch: products broadcast.
Tensor value_of(const BatchCall& call, int i) {
  return call.batched(i) ? call.front(i) : call.tensor(i);
}

// Below as many multiplications a product for each sample costs more than what it computes; above,
// results whose samples do not lie one after the other cost more in what follows.
constexpr int64_t kSmallProduct = 8192;

// Of matrices, or batches of `rank` dimensions, one of them with the samples in front. One matrix
// with many small ones is the transposed product of many with one, whose rows matmul takes
// together.
Tensor product(const BatchCall& call, int a, int b) {
  const Tensor left = value_of(call, a), right = value_of(call, b);
  if (call.batched(a) || call.rank(a) != 2 || left.numel() * right.size(-1) > kSmallProduct)
    return matmul(left, right);
  return transpose(matmul(transpose(right, -1, -2), transpose(left, 0, 1)), -1, -2);
}

Tensor with_samples(const BatchCall& call, const Tensor& y, int rank) {
  if (y.dim() > rank) return y;
  Dims sizes = y.sizes();
  sizes.insert(0, call.size());
  return expand(y, sizes);
}

void add_product(BatchCall& call, int rank) {
  const Scalar beta = std::get<Scalar>(call.arguments[3]),
               alpha = std::get<Scalar>(call.arguments[4]);
  Tensor y = with_samples(call, product(call, 1, 2), rank);
  if (!(alpha.is_int() && alpha.to_int() == 1)) y = mul(y, alpha);
  // As in the op: a beta of 0 leaves NaN of the input out.
  if (beta.is_complex() || beta.to_double() != 0) {
    const Tensor input = call.batched(0) ? call.front(0, rank) : call.tensor(0);
    y = add(y, beta.is_int() && beta.to_int() == 1 ? input : mul(input, beta));
  }
  call.results = {y};
}

// What the unit vectors give is memory of its own, as a product is.
Tensor columns_of(const Tensor& matrix) {
  return clone(transpose(matrix, 0, 1), MemoryFormat::Contiguous);
}

}  // namespace

// Also of bmm.
void mm(BatchCall& call) {
  const bool batches = std::string_view(call.op.row->name) == "bmm";
  check_samples(call, batches ? shapes::bmm : shapes::mm);
  call.results = {product(call, 0, 1)};
}

void addmm(BatchCall& call) {
  shapes::addmm(call.sample(0), call.sample(1), call.sample(2), 1, 1);
  add_product(call, 2);
}
void baddbmm(BatchCall& call) {
  shapes::baddbmm(call.sample(0), call.sample(1), call.sample(2), 1, 1);
  add_product(call, 3);
}

void mv(BatchCall& call) {
  check_samples(call, shapes::mv);
  const Tensor a = value_of(call, 0), x = value_of(call, 1);
  if (!call.batched(0) && call.units(1)) {
    call.results = {columns_of(a)};
    return;
  }
  if (!call.batched(0))
    call.results = {matmul(x, transpose(a, 0, 1))};
  else
    call.results = {squeeze(matmul(a, unsqueeze(x, -1)), Dims{-1})};
}

void dot(BatchCall& call) {
  check_samples(call, shapes::dot);
  call.results = {sum(mul(value_of(call, 0), value_of(call, 1)), Dims{1})};
}

void outer(BatchCall& call) {
  check_samples(call, shapes::outer);
  call.results = {mul(unsqueeze(value_of(call, 0), -1), unsqueeze(value_of(call, 1), -2))};
}

namespace {
// The same rows with the weight of each sample: all weights are one, with many outputs.
Tensor linear_with_each(const Tensor& x, const Tensor& weight) {
  const Tensor y = moonlet::linear(x, flatten(weight, 0, 1));
  return movedim(unflatten(y, -1, {weight.size(0), weight.size(1)}), {-2}, {0});
}

// All rows of a sample, or of all samples, as one matrix.
Tensor linear_of_rows(const BatchCall& call, const Tensor& x, const Tensor& weight) {
  const Dims leading{x.sizes().data(), x.dim() - 1};
  const Tensor rows =
      call.batched(0) ? reshape(x, {call.size(), -1, x.size(-1)}) : reshape(x, {-1, x.size(-1)});
  const Tensor y = matmul(rows, transpose(weight, -1, -2));
  Dims sizes = leading;
  if (!call.batched(0)) sizes.insert(0, call.size());
  sizes.push_back(y.size(-1));
  return reshape(y, sizes);
}
}  // namespace

void linear(BatchCall& call) {
  const bool bias = call.has_tensor(2);
  shapes::linear(call.sample(0), call.sample(1), bias ? call.sample(2) : Tensor());
  if (call.units(0) && !call.batched(1) && !bias) {
    call.results = {columns_of(call.tensor(1))};
    return;
  }
  if (!call.batched(1) && !(bias && call.batched(2))) {
    call.put(0, call.front(0));
    return call.call();
  }
  const Tensor weight = value_of(call, 1);
  const int rank = call.rank(0);
  const Tensor x = value_of(call, 0);
  Tensor y;
  if (!call.batched(0) && !call.batched(1))
    y = with_samples(call, moonlet::linear(x, weight), rank);
  else if (!call.batched(0) && x.numel() * weight.size(1) <= kSmallProduct)
    y = linear_with_each(x, weight);
  else
    y = linear_of_rows(call, x, weight);
  if (bias) y = add(y, call.batched(2) ? call.front(2, rank) : call.tensor(2));
  call.results = {y};
}

namespace {
// The position of each pair i < j of n rows in the matrix of all, in row order; from 1.
Tensor positions_of_pairs(int64_t n, const Tensor& like, bool below) {
  const Tensor pairs = triu_indices(n, n, 1, DType::Int64, like.device().real());
  const Tensor row = select(pairs, 0, below ? 1 : 0), column = select(pairs, 0, below ? 0 : 1);
  return add(mul(sub(row, int64_t{1}), n), column);
}

// (samples, pairs) as symmetric matrices (samples, n, n) with zeros on the diagonal.
Tensor as_matrix(const Tensor& of_pairs, int64_t n) {
  const Tensor above = positions_of_pairs(n, of_pairs, false),
               below = positions_of_pairs(n, of_pairs, true);
  Tensor y = zeros({of_pairs.size(0), n * n}, options_of(of_pairs));
  index_copy_(y, 1, above, of_pairs);
  index_copy_(y, 1, below, of_pairs);
  return reshape(y, {of_pairs.size(0), n, n});
}
}  // namespace

// `x, p`: from the distances of all rows and all rows.
void native_pdist(BatchCall& call) {
  const Tensor x = call.front(0);
  const Tensor all = native_cdist(x, x, std::get<double>(call.arguments[1]));
  call.results = {index_select(flatten(all, 1, 2), 1, positions_of_pairs(x.size(1), x, false))};
}

// `grad, x, distance, p`: each row is in as many pairs as there are others.
void pdist_grad_x(BatchCall& call) {
  const Tensor x = call.front(1);
  const int64_t n = x.size(1);
  call.results = {cdist_grad_x1(as_matrix(call.front(0), n), x, x, as_matrix(call.front(2), n),
                                std::get<double>(call.arguments[3]))};
}

// `x, p`: a norm of each sample of a list.
void list_norm(BatchCall& call) {
  std::vector<Tensor> rows = call.list_front(0);
  for (Tensor& x : rows) x = x.dim() == 1 ? unsqueeze(x, 1) : flatten(x, 1, -1);
  call.results = {
      linalg_vector_norm(moonlet::cat(rows, 1), std::get<double>(call.arguments[1]), {1})};
}

// `x, norm, max_norm`: each sample by the norm of its own, or by that of all.
void list_limit_norm(BatchCall& call) {
  call.check_written();
  const Tensor limit = full_like(call.tensor(1), std::get<double>(call.arguments[2]));
  const Tensor factors = clamp_max(div(limit, add(call.tensor(1), 1e-6)), 1.0);
  for (Tensor x : call.list_front(0)) {
    Tensor each = factors;
    while (call.batched(1) && each.dim() < x.dim()) each = unsqueeze(each, -1);
    mul_(x, each);
  }
}

// `x, found_inf, scale`: what is found is of each sample.
void list_unscale(BatchCall& call) {
  call.check_written();
  const Tensor factors = reciprocal(value_of(call, 2));
  Tensor found = call.list_front(1)[0];
  for (Tensor x : call.list_front(0)) {
    const Tensor rows = x.dim() == 1 ? unsqueeze(x, 1) : flatten(x, 1, -1);
    copy_(found, where(all(isfinite(rows), {1}), found, 1.0));
    Tensor each = factors;
    while (call.batched(2) && each.dim() < x.dim()) each = unsqueeze(each, -1);
    mul_(x, each);
  }
}

// `scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval`
void update_loss_scale(BatchCall& call) {
  call.check_written();
  Tensor scale = call.list_front(0)[0], tracker = call.list_front(1)[0];
  const Tensor found = ne(value_of(call, 2), 0.0), count = add(tracker, int64_t{1});
  const Tensor ends = eq(count, std::get<int64_t>(call.arguments[5]));
  const Tensor wider = mul(scale, std::get<double>(call.arguments[3]));
  const Tensor grown = where(logical_and(ends, isfinite(wider)), wider, scale);
  copy_(scale, where(found, mul(scale, std::get<double>(call.arguments[4])), grown));
  copy_(tracker, where(logical_or(found, ends), int64_t{0}, count));
}

// Lists with an entry for each parameter: those of all samples are parameters of one call, and what
// is `given` after them for all parameters is given for each. `found_inf`, the last argument, is
// for all.
void capturable_step(BatchCall& call) {
  call.check_written();
  check(!call.batched(call.count() - 1), call.op.name,
        ": found_inf must be the same for all samples of vmap");
  int given = 0;
  while (std::string_view(call.op.row->arguments[given].name) != "given") ++given;
  const size_t parameters = call.list_front(0).size();
  std::vector<Tensor> numbers = call.list_front(given);
  for (Tensor& x : numbers)
    if (x.defined()) x = moonlet::cat(std::vector<Tensor>(parameters, flatten(x, 0, -1)), 0);
  call.put(given, std::move(numbers));
  for (int i = 0; i < given; ++i) {
    std::vector<Tensor> each;
    for (const Tensor& batch : call.list_front(i))
      for (int64_t sample = 0; sample < call.size(); ++sample)
        each.push_back(select(batch, 0, sample));
    call.put(i, std::move(each));
  }
  call.call();
}

}  // namespace moonlet::batching
