// tensor/shapes/gather.cpp: argument checks and result shapes of gather, scatter and embedding.
// Whether positions are in range only the kernels can see.
#include "tensor/shapes_gather.h"

namespace moonlet::shapes {

namespace {

// No positions at all may come in any shape, as in PyTorch.
void check_same_rank(const char* op, const Tensor& x, const Tensor& index) {
  check(index.dim() == x.dim() || index.numel() == 0, op, ": index has shape ", index.sizes(),
        "; as many dimensions expected as ", x.sizes(), " has");
}

void check_inside(const char* op, const Tensor& x, int dim, const Tensor& index) {
  if (index.numel() == 0) return;
  for (int i = 0; i < x.dim(); ++i) {
    check(i == dim || index.size(i) <= x.size(i), op, ": index of shape ", index.sizes(),
          " is larger than ", x.sizes(), " in dimension ", i + 1);
  }
}

void check_scatter(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                   const Tensor& src) {
  check_same_rank(op, x, index);
  bool inside = src.dim() == index.dim() || index.numel() == 0;
  for (int i = 0; inside && index.numel() > 0 && i < index.dim(); ++i)
    inside = index.size(i) <= src.size(i);
  check(inside, op, ": src has shape ", src.sizes(), ", index has ", index.sizes(),
        ", and none of its sizes may be larger");
  check_inside(op, x, wrapped(dim, x.dim()), index);
}

void check_vector(const char* op, const Tensor& index) {
  check(index.dim() <= 1, op, ": index has shape ", index.sizes(), "; one dimension expected");
}

}  // namespace

Result gather(const Tensor& x, int64_t dim, const Tensor& index) {
  check_same_rank("gather", x, index);
  check_inside("gather", x, wrapped(dim, x.dim()), index);
  return {index.sizes(), options_of(x)};
}

void scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  check_scatter("scatter", x, dim, index, source);
}

void scatter_value(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  check_same_rank("scatter", x, index);
  check_inside("scatter", x, wrapped(dim, x.dim()), index);
  check_fits(value, x.dtype(), "scatter");
}

void scatter_fold(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce) {
  check(reduce == "prod" || reduce == "amax" || reduce == "amin",
        "scatter_fold: reduce is \"prod\", \"amax\" or \"amin\", got \"", reduce, "\"");
  check_scatter("scatter_fold", x, dim, index, source);
}

void scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  check_scatter("scatter_add", x, dim, index, source);
}

// The shape of the slices of x at so many positions.
static Dims slices_of(const char* op, const Tensor& x, int64_t dim, const Tensor& index) {
  check_vector(op, index);
  const int d = wrapped(dim, x.dim());
  Dims sizes = x.sizes();
  if (x.dim()) {
    sizes[d] = index.numel();
  } else {
    check(index.numel() == 1, op, ": ", index.numel(), " positions in a tensor without dimensions");
  }
  return sizes;
}

Result index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  return {slices_of("index_select", x, dim, index), options_of(x)};
}

void index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  check_shape("index_add", "source", source.sizes(), slices_of("index_add", x, dim, index));
}

void index_add_scaled(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      Scalar alpha) {
  index_add(x, dim, index, source);
  check(!is_integral(x.dtype()) || alpha.is_int(), "index_add: alpha is ", alpha,
        ", but integers are multiplied by whole numbers only");
  check(is_complex(x.dtype()) || !alpha.is_complex(), "index_add: alpha is ", alpha,
        ", a complex number, x has dtype ", x.dtype());
  check_fits(alpha, x.dtype(), "index_add");
}

void index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce, bool) {
  check(reduce != "sum",
        "index_reduce: reduce is \"prod\", \"mean\", \"amax\" or \"amin\", got "
        "\"sum\"; index_add sums");
  check(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
        "index_reduce: reduce is \"prod\", \"mean\", \"amax\" or \"amin\", got \"", reduce, "\"");
  check_shape("index_reduce", "source", source.sizes(), slices_of("index_reduce", x, dim, index));
}

void index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  check_shape("index_copy", "source", source.sizes(), slices_of("index_copy", x, dim, index));
}

void index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  slices_of("index_fill", x, dim, index);
  check_fits(value, x.dtype(), "index_fill");
}

Result embedding(const Tensor& weight, const Tensor& index, int64_t, bool scale_grad_by_freq,
                 bool sparse) {
  check(!scale_grad_by_freq || !sparse,
        "embedding: scale_grad_by_freq is not for sparse gradients");
  check(weight.dim() == 2, "embedding: weight has shape ", weight.sizes(),
        "; (positions, features) expected");
  Dims sizes = index.sizes();
  sizes.push_back(weight.size(1));
  return {sizes, options_of(weight)};
}

Result embedding_grad_weight(const Tensor& grad, const Tensor& index, int64_t rows, int64_t) {
  bool fits = grad.dim() == index.dim() + 1 && rows >= 0;
  for (int i = 0; fits && i < index.dim(); ++i) fits = grad.size(i) == index.size(i);
  check(fits, "embedding_grad_weight: grad has shape ", grad.sizes(), " for positions of shape ",
        index.sizes(), " in ", rows, " rows");
  return {{rows, grad.size(-1)}, options_of(grad)};
}

}  // namespace moonlet::shapes
