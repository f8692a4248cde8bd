// autograd/inplace.cpp: nodes for identity, views found again by strides, and changes in place to
// a part of a tensor.
#include "autograd/inplace.h"

#include "autograd/meta.h"
#include "autograd/ops.h"

namespace moonlet {

namespace {

// Where a view lies in its base, in elements from the base's first.
struct Place {
  Dims sizes, strides;
  int64_t offset = 0;
  Place() = default;
  Place(const Tensor& view, const Tensor& base)
      : sizes(view.sizes()), strides(view.strides()), offset(view.offset() - base.offset()) {}
};

// `g`, shaped as the base, laid out in a fresh buffer with the base's strides, so that a place in
// the base is the same place in the result. Differentiable.
struct Laid {
  Tensor whole;   // base's shape
  Tensor buffer;  // one-dimensional
};
Laid lay_out(const Tensor& g, const Place& base) {
  int64_t span = 1;
  for (int i = 0; i < base.sizes.size(); ++i) span += (base.sizes[i] - 1) * base.strides[i];
  if (g.numel() == 0) span = 0;
  Tensor buffer = zeros({span}, options_of(g));
  Tensor whole = as_strided(buffer, base.sizes, base.strides, 0);
  copy_(whole, g);
  return {whole, buffer};
}

class IdentityNode final : public Node {
 public:
  const char* name() const override { return "IdentityBackward"; }
  void apply(const Tensor* grads, Tensor* out) override { out[0] = grads[0]; }
  void release_saved() override {}
};

class ViewNode final : public Node {
 public:
  const char* name() const override { return "AsStridedBackward"; }
  void apply(const Tensor* grads, Tensor* out) override {
    int64_t span = 1;
    for (int i = 0; i < base.sizes.size(); ++i) span += (base.sizes[i] - 1) * base.strides[i];
    Tensor buffer = zeros({span}, options_of(grads[0]));
    Tensor slice = as_strided(buffer, place.sizes, place.strides, place.offset);
    copy_(slice, grads[0]);
    out[0] = as_strided(buffer, base.sizes, base.strides, 0);
  }
  void release_saved() override {}

  Place place, base;
};

class CopySlices final : public Node {
 public:
  const char* name() const override { return "CopySlices"; }
  void apply(const Tensor* grads, Tensor* out) override {
    Laid laid = lay_out(grads[0], base);
    Tensor slice = as_strided(laid.buffer, place.sizes, place.strides, place.offset);
    const Tensor slice_gradient = clone(slice);
    change->apply(&slice_gradient, out);
    if (!needs(0)) {
      out[0] = Tensor();
      return;
    }
    if (out[0].defined())
      copy_(slice, out[0]);
    else
      fill_(slice, 0.0);
    out[0] = as_strided(laid.buffer, base.sizes, base.strides, 0);
  }
  void release_saved() override { change->release_saved(); }

  Place place, base;
  NodeRef change;
};

}  // namespace

NodeRef make_identity_node(const Edge& edge) {
  auto [ref, node] = make_node<IdentityNode>();
  node->edges.push_back(edge);
  return ref;
}

NodeRef make_view_node(const Tensor& t, const Tensor& base) {
  auto [ref, node] = make_node<ViewNode>();
  node->place = Place(t, base);
  node->base = Place(base, base);
  node->edges.push_back(edge_of(base));
  return ref;
}

NodeRef make_copy_slices(const Tensor& x, const Tensor& base, const NodeRef& change) {
  auto [ref, node] = make_node<CopySlices>();
  node->place = Place(x, base);
  node->base = Place(base, base);
  node->change = change;
  node->edges = change->edges;
  node->edges[0] = edge_of(base);
  return ref;
}

}  // namespace moonlet
