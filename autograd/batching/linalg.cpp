// autograd/batching/linalg.cpp: products of a batch: those of matrices with one dimension more.
#include "autograd/batching.h"
#include "autograd/uses_batching_linalg.h"

namespace moonlet::batching {

namespace {

// As the value is where it is no batch: products broadcast.
Tensor value_of(const BatchCall& call, int i) {
  return call.batched(i) ? call.front(i) : call.tensor(i);
}

// Of matrices, or batches of `rank` dimensions, one of them with the samples in front.
Tensor product(const BatchCall& call, int a, int b) {
  return matmul(value_of(call, a), value_of(call, b));
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

}  // namespace

void mm(BatchCall& call) { call.results = {product(call, 0, 1)}; }

void addmm(BatchCall& call) { add_product(call, 2); }
void baddbmm(BatchCall& call) { add_product(call, 3); }

void mv(BatchCall& call) {
  const Tensor a = value_of(call, 0), x = value_of(call, 1);
  if (!call.batched(0))
    call.results = {matmul(x, transpose(a, 0, 1))};
  else
    call.results = {squeeze(matmul(a, unsqueeze(x, -1)), Dims{-1})};
}

void dot(BatchCall& call) {
  call.results = {sum(mul(value_of(call, 0), value_of(call, 1)), Dims{1})};
}

void outer(BatchCall& call) {
  call.results = {mul(unsqueeze(value_of(call, 0), -1), unsqueeze(value_of(call, 1), -2))};
}

void linear(BatchCall& call) {
  const bool bias = call.has_tensor(2);
  if (!call.batched(1) && !(bias && call.batched(2))) {
    call.put(0, call.front(0));
    return call.call();
  }
  const Tensor weight = value_of(call, 1);
  const int rank = call.rank(0);
  const Tensor x = value_of(call, 0);
  // All rows of a sample as one matrix.
  const Dims rows{x.sizes().data(), x.dim() - 1};
  const Tensor matrix =
      call.batched(0) ? reshape(x, {call.size(), -1, x.size(-1)}) : reshape(x, {-1, x.size(-1)});
  Tensor y = matmul(matrix, transpose(weight, -1, -2));
  if (y.dim() == 2) y = with_samples(call, y, 2);
  Dims sizes = rows;
  if (!call.batched(0)) sizes.insert(0, call.size());
  sizes.push_back(y.size(-1));
  y = reshape(y, sizes);
  if (bias) y = add(y, call.batched(2) ? call.front(2, rank) : call.tensor(2));
  call.results = {y};
}

}  // namespace moonlet::batching
