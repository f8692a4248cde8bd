// autograd/meta.cpp: histories: leaves, results, views, and what an in-place change does to them.
#include "autograd/meta.h"

#include "autograd/inplace.h"
#include "autograd/ops.h"
#include "tensor/dispatch.h"

namespace moonlet {

namespace {
std::atomic<int64_t> next_hook{1};
}  // namespace

TapeMeta& ensure_meta(const Tensor& t) {
  if (!t.impl()->autograd) t.impl()->autograd = new TapeMeta();
  return *meta_of(t);
}

NodeRef grad_fn_of(const Tensor& t) {
  TapeMeta* meta = meta_of(t);
  if (!meta) return {};
  // A view of a base without history is a leaf once it requires grad, and stays one when its memory
  // changes under no_grad.
  if (meta->base && meta->version != t.storage().version() && meta->base_handle.requires_grad()) {
    meta->grad_fn = make_view_node(t, meta->base_handle);
    meta->output = 0;
    meta->requires_grad = true;
    meta->version = t.storage().version();
  }
  return meta->grad_fn;
}

namespace {
void fill_edge(Edge& edge, const Tensor& t) {
  if (!t.defined() || !t.requires_grad()) return;
  edge.node = grad_fn_of(t);
  if (edge.node)
    edge.index = meta_of(t)->output;
  else
    edge.leaf = t;
  edge.meta.sizes = t.sizes();
  edge.meta.options = options_of(t);
}
}  // namespace

Edge edge_of(const Tensor& t) {
  Edge edge;
  fill_edge(edge, t);
  return edge;
}

void set_history(Tensor& y, const NodeRef& node, int output) {
  if (!is_differentiable(y.dtype())) return;
  TapeMeta& meta = ensure_meta(y);
  meta.grad_fn = node;
  meta.output = output;
  meta.requires_grad = true;
  meta.has_history = true;
}

void set_edge(Tensor& y, const Edge& edge) {
  if (edge.node) {
    set_history(y, edge.node, edge.index);
    return;
  }
  // The value of a leaf under another handle: an identity step leads to the leaf itself.
  set_history(y, make_identity_node(edge));
}

Tensor with_history(const Tensor& t, Node& node, int output) {
  Tensor out = shallow_copy(t);
  TapeMeta& meta = ensure_meta(out);
  meta.grad_fn = NodeRef::share(node);
  meta.output = output;
  meta.requires_grad = true;
  return out;
}

void register_view(Tensor& y, const Tensor& x) {
  if (!is_differentiable(y.dtype())) return;
  TapeMeta& meta = ensure_meta(y);
  const TapeMeta* parent = meta_of(x);
  meta.version = y.storage().version();
  if (!grad_enabled() || (parent && parent->no_grad_view)) {
    meta.no_grad_view = true;
    return;
  }
  // A view of another dtype (view_as_real) cannot be found again by strides in its base.
  if (y.dtype() != x.dtype()) {
    meta.no_grad_view = true;
    return;
  }
  meta.set_base(parent && parent->base ? parent->base_handle : x);
}

bool is_leaf(const Tensor& t) { return !t.requires_grad() || !grad_fn_of(t); }

void check_inplace(const Tensor& x, const char* op) {
  const TapeMeta* meta = meta_of(x);
  if (x.requires_grad() && is_leaf(x)) {
    fail(op,
         ": a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
  if (!meta) return;
  if (meta->no_grad_view) {
    fail(op,
         ": this view was made under ml.no_grad (or of another dtype), so a recorded in-place "
         "change would not reach its base; make the view while recording");
  }
  if (meta->base && meta->base_handle.requires_grad() && is_leaf(meta->base_handle)) {
    fail(op,
         ": a view of a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
}

void check_inplace_without_derivative(const Tensor& x, const char* op) {
  if (!grad_enabled() || !x.requires_grad()) return;
  check_inplace(x, op);
  fail(op,
       ": this op has no derivative, so it cannot change a tensor that requires grad; "
       "detach it or wrap the change in ml.no_grad");
}

void rebase_history(Tensor& x, const NodeRef& node) {
  TapeMeta& meta = ensure_meta(x);
  if (!meta.base) {
    set_history(x, node);
    return;
  }
  Tensor base = meta.base_handle;
  const NodeRef slices = make_copy_slices(x, base, node);
  set_history(base, slices);
  meta.version = x.storage().version() - 1;  // makes grad_fn_of look the history up again
  grad_fn_of(x);
}

bool requires_grad(const std::vector<Tensor>& list) {
  for (const Tensor& t : list)
    if (requires_grad(t)) return true;
  return false;
}

void add_edge(Node& node, const Tensor& t) { fill_edge(node.edges.emplace_back(), t); }
void add_edge(Node& node, const Operand& o) { fill_edge(node.edges.emplace_back(), o.tensor()); }
void add_edge(Node& node, const std::vector<Tensor>& list) {
  for (const Tensor& t : list) add_edge(node, t);
}

void set_requires_grad(Tensor& t, bool on) {
  if (on && !is_differentiable(t.dtype()))
    fail("requires_grad_: only floating and complex tensors can require grad, this one is ",
         t.dtype());
  if (!is_leaf(t)) {
    if (!on)
      fail("requires_grad_: this tensor is computed from others (", grad_fn_name(t),
           "); use detach to get one that does not require grad");
    return;
  }
  if (!on && !t.impl()->autograd) return;
  ensure_meta(t).requires_grad = on;
}

Tensor grad_of(const Tensor& t) {
  const TapeMeta* meta = meta_of(t);
  if (!meta) return {};
  return meta->kept_grad ? *meta->kept_grad : meta->grad;
}

void set_grad(Tensor& t, const Tensor& grad) {
  if (grad.defined()) {
    check_same_device("grad", t, "the gradient", grad);
    check_same_dtype("grad", t, "the gradient", grad);
    if (!(grad.sizes() == t.sizes()))
      fail("grad: the gradient has shape ", grad.sizes(), " and the tensor ", t.sizes());
  } else if (!t.impl()->autograd) {
    return;
  }
  ensure_meta(t).grad = grad;
}

std::string grad_fn_name(const Tensor& t) {
  if (!t.requires_grad()) return "";
  const NodeRef node = grad_fn_of(t);
  return node ? node->name() : "";
}

Tensor detach(const Tensor& t) { return shallow_copy(t); }

void detach_(Tensor& t) {
  TapeMeta* meta = meta_of(t);
  if (!meta) return;
  if (meta->base) fail("detach_: a view cannot be cut off in place; use detach");
  meta->grad_fn = NodeRef();
  meta->requires_grad = false;
  meta->has_history = false;
}

int64_t register_hook(Tensor& t, Hook hook) {
  if (!t.requires_grad()) fail("register_hook: the tensor does not require grad");
  const int64_t id = next_hook.fetch_add(1, std::memory_order_relaxed);
  const NodeRef node = grad_fn_of(t);
  TapeMeta& meta = ensure_meta(t);
  (node ? node->hooks : meta.hooks).push_back({id, meta.output, std::move(hook)});
  return id;
}

void remove_hook(Tensor& t, int64_t id) {
  const auto drop = [id](std::vector<HookEntry>& hooks) {
    std::erase_if(hooks, [id](const HookEntry& entry) { return entry.id == id; });
  };
  if (TapeMeta* meta = meta_of(t)) {
    drop(meta->hooks);
    if (meta->grad_fn) drop(meta->grad_fn->hooks);
  }
}

bool hooks_held_elsewhere(const Tensor& t) {
  if (t.impl()->references.load(std::memory_order_acquire) > 1) return true;
  const TapeMeta* meta = meta_of(t);
  return meta && meta->grad_fn.use_count() > 1;
}

void retain_grad(Tensor& t) {
  if (!t.requires_grad()) fail("retain_grad: the tensor does not require grad");
  if (is_leaf(t) || ensure_meta(t).kept_grad) return;
  // The hook must not own the tensor, whose history owns the hook: they share only the slot.
  auto slot = std::make_shared<Tensor>();
  ensure_meta(t).kept_grad = slot;
  register_hook(t, [slot](const Tensor& g) {
    *slot = g;
    return Tensor();
  });
}

}  // namespace moonlet
