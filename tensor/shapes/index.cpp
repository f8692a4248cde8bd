// tensor/shapes/index.cpp: argument checks and result shapes of gather, scatter and indexing.
#include "tensor/shapes/index.h"

namespace moonlet::shapes {

void check_positions(const char* op, const Tensor& x, const Tensor& index) {
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op, ": positions are ",
        index.dtype(), "; int64 or int32 wanted");
  check(index.device() == x.device(), op, ": positions are on ", name(index.device()),
        ", the tensor is on ", name(x.device()));
}

void bad_position(const char* op, int64_t at, int64_t size) {
  if (at == 0) fail(op, ": position 0: positions start at 1");
  fail(op, ": position ", at, " is out of range for size ", size);
}

static void check_same_rank(const char* op, const Tensor& x, const Tensor& index) {
  check(index.dim() == x.dim(), op, ": index has shape ", index.sizes(),
        "; as many dimensions wanted as ", x.sizes(), " has");
}

static void check_source(const char* op, const Tensor& x, const Tensor& source) {
  check(source.dtype() == x.dtype(), op, ": source is ", source.dtype(), ", the tensor is ",
        x.dtype());
  check(source.device() == x.device(), op, ": source is on ", name(source.device()),
        ", the tensor is on ", name(x.device()));
}

static void check_inside(const char* op, const Tensor& x, int dim, const Tensor& index) {
  for (int i = 0; i < x.dim(); ++i) {
    check(i == dim || index.size(i) <= x.size(i), op, ": index of shape ", index.sizes(),
          " is larger than ", x.sizes(), " in dimension ", i + 1);
  }
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  check_positions("gather", x, index);
  check_same_rank("gather", x, index);
  check_inside("gather", x, wrap_dim(dim, x.dim(), "gather"), index);
  return empty(index.sizes(), options_of(x), "gather");
}

void check_scatter(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                   const Tensor& source) {
  check_positions(op, x, index);
  check_source(op, x, source);
  check_same_rank(op, x, index);
  check(source.sizes() == index.sizes(), op, ": source has shape ", source.sizes(), ", index has ",
        index.sizes());
  check_inside(op, x, wrap_dim(dim, x.dim(), op), index);
}

static void check_vector(const char* op, const Tensor& index) {
  check(index.dim() <= 1, op, ": index has shape ", index.sizes(), "; one dimension wanted");
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  check_positions("index_select", x, index);
  check_vector("index_select", index);
  const int d = wrap_dim(dim, x.dim(), "index_select");
  Dims sizes = x.sizes();
  if (x.dim()) {
    sizes[d] = index.numel();
  } else {
    check(index.numel() == 1, "index_select: ", index.numel(),
          " positions in a tensor without dimensions");
  }
  return empty(sizes, options_of(x), "index_select");
}

void check_index_add(const char* op, const Tensor& x, int64_t dim, const Tensor& index,
                     const Tensor& source) {
  check_positions(op, x, index);
  check_vector(op, index);
  check_source(op, x, source);
  const int d = wrap_dim(dim, x.dim(), op);
  Dims wanted = x.sizes();
  if (x.dim()) wanted[d] = index.numel();
  check(source.sizes() == wanted, op, ": source has shape ", source.sizes(), "; ", wanted,
        " wanted");
}

Tensor embedding(const Tensor& weight, const Tensor& index) {
  check_positions("embedding", weight, index);
  check(weight.dim() == 2, "embedding: weight has shape ", weight.sizes(),
        "; (positions, features) wanted");
  Dims sizes = index.sizes();
  sizes.push_back(weight.size(1));
  return empty(sizes, options_of(weight), "embedding");
}

Tensor embedding_backward(const Tensor& g, const Tensor& index, int64_t rows) {
  check_positions("embedding_backward", g, index);
  check(g.dim() == index.dim() + 1 && rows >= 0, "embedding_backward: g has shape ", g.sizes(),
        " for positions of shape ", index.sizes());
  for (int i = 0; i < index.dim(); ++i) {
    check(g.size(i) == index.size(i), "embedding_backward: g has shape ", g.sizes(),
          " for positions of shape ", index.sizes());
  }
  return empty(Dims{rows, g.size(-1)}, options_of(g), "embedding_backward");
}

IndexPlan plan_index(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  const int given = static_cast<int>(indices.size());
  check(given <= x.dim(), op, ": ", given, " indices for a tensor of shape ", x.sizes());
  IndexPlan plan;
  int first = -1, last = -1;
  for (int d = 0; d < given; ++d) {
    if (!indices[d].defined()) continue;
    check_positions(op, x, indices[d]);
    plan.index_sizes = plan.indices.empty() ? indices[d].sizes()
                                            : broadcast(plan.index_sizes, indices[d].sizes(), op);
    plan.indices.push_back(indices[d]);
    plan.indexed_sizes.push_back(x.size(d));
    plan.indexed_strides.push_back(x.stride(d));
    if (first < 0) first = d;
    last = d;
  }
  const bool together = last - first + 1 == plan.indexed_sizes.size();
  plan.index_at = together && first > 0 ? first : 0;
  const auto put_indexed = [&] {
    for (int64_t size : plan.index_sizes) {
      plan.result.push_back(size);
      plan.base_strides.push_back(0);
    }
  };
  for (int d = 0, kept = 0; d <= x.dim(); ++d) {
    if (kept == plan.index_at && plan.result.size() == kept) {
      put_indexed();
      kept = -1;
    }
    if (d == x.dim()) break;
    if (d < given && indices[d].defined()) continue;
    plan.result.push_back(x.size(d));
    plan.base_strides.push_back(x.stride(d));
    if (kept >= 0) ++kept;
  }
  return plan;
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  return empty(plan_index("index", x, indices).result, options_of(x), "index");
}

}  // namespace moonlet::shapes
