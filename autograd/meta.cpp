// autograd/meta.cpp: what users ask of a tensor's part on the tape: requires_grad, gradients,
// hooks.
#include "autograd/meta.h"

#include "autograd/history.h"
#include "autograd/program/leaf_gradients.h"
#include "tensor/core/dispatch.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

namespace {
std::atomic<int64_t> next_hook{1};
}  // namespace

int64_t new_hook_id() { return next_hook.fetch_add(1, std::memory_order_relaxed); }

AutogradMeta& ensure_meta(const Tensor& t) {
  if (!t.impl()->autograd) t.impl()->autograd = new AutogradMeta();
  return *meta_of(t);
}

namespace {
// The gradient that retain_grad keeps follows the tensor to its new history.
void move_retained(AutogradMeta& meta, Node& node, int output) {
  if (meta.grad_fn && meta.grad_fn->hooks) meta.grad_fn->hooks->forget(meta.retained);
  node.ensure_hooks().retain({output, meta.retained});
}
}  // namespace

void set_history(const Tensor& y, const NodeRef& node, int output) {
  AutogradMeta& meta = ensure_meta(y);
  if (meta.retained) move_retained(meta, *node, output);
  meta.grad_fn = node;
  meta.output = output;
  meta.requires_grad = true;
  meta.has_history = true;
}

Tensor without_history(const Tensor& t) {
  Tensor out = shallow_copy(t);
  if (const AutogradMeta* meta = meta_of(t); meta && meta->tangents)
    ensure_meta(out).tangents = meta->tangents;
  return out;
}

Tensor with_history(const Tensor& t, const NodeRef& node, int output) {
  Tensor out = without_history(t);
  set_history(out, node, output);
  return out;
}

Edge edge_of(const Tensor& t) {
  if (!t.defined() || !t.requires_grad()) return {};
  NodeRef node = grad_fn_of(t);
  if (node) return {std::move(node), meta_of(t)->output};
  return {accumulate_node(t), 0};
}

bool is_leaf(const Tensor& t) {
  return !is_unreachable_view(t) && (!t.requires_grad() || !grad_fn_of(t));
}

void set_requires_grad(Tensor& t, bool on) {
  if (on && !is_differentiable(t.dtype()))
    fail("requires_grad_: only floating and complex tensors can require grad, this one is ",
         t.dtype());
  if (on && t.storage().is_inference() && !execution.inference_mode)
    fail("requires_grad_: this tensor was made in inference mode; clone it first");
  if (!is_leaf(t)) {
    if (!on)
      fail("requires_grad_: this tensor is computed from others (", grad_fn_name(t),
           "); use detach to get one that does not require grad");
    return;
  }
  if (!on && !t.impl()->autograd) return;
  ensure_meta(t).requires_grad = on;
}

namespace {
// The gradient of a tensor that interpreters share is the same tensor in each of them.
void share_with(const Tensor& t, const Tensor& grad) {
  if (grad.defined() && t.storage().has_shared_handles()) grad.storage().share_handles();
}
}  // namespace

Gradient gradient_of(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return {};
  if (meta->retained) {
    share_with(t, *meta->retained);
    return {*meta->retained, nullptr};
  }
  const LeafLock lock(*meta);
  share_with(t, meta->grad);
  program::note_leaf_gradient(t, {meta->grad, meta->rows}, true);
  return {meta->grad, meta->rows};
}

Tensor grad_of(const Tensor& t) {
  const Gradient gradient = gradient_of(t);
  return gradient.rows ? gradient.rows->get().to_dense() : gradient.dense;
}

namespace {
// `like`: a tensor with the gradient's dtype and device.
void check_gradient(const Tensor& t, const Tensor& like, const Dims& sizes) {
  check_same_device("grad", t, "the gradient", like);
  check_same_dtype("grad", t, "the gradient", like);
  if (!(sizes == t.sizes()))
    fail("grad: the gradient has shape ", sizes, " and the tensor ", t.sizes());
}

// What was there is left in `gradient`, to end outside the lock.
void exchange_gradient(const Tensor& t, AutogradMeta& meta, Gradient& gradient) {
  const LeafLock lock(meta);
  program::note_leaf_gradient(t, {meta.grad, meta.rows}, false);
  std::swap(meta.grad, gradient.dense);
  std::swap(meta.rows, gradient.rows);
}
}  // namespace

void set_grad(Tensor& t, const Tensor& grad) {
  if (grad.defined()) {
    check(!grad.is_same(t), "grad: a tensor cannot be its own gradient");
    check_gradient(t, grad, grad.sizes());
  } else if (!t.impl()->autograd) {
    return;
  }
  AutogradMeta& meta = ensure_meta(t);
  if (meta.retained) {
    *meta.retained = grad;
    return;
  }
  Gradient gradient{grad, nullptr};
  exchange_gradient(t, meta, gradient);
}

void set_sparse_grad(Tensor& t, const std::shared_ptr<SharedRows>& rows) {
  const SparseRows given = rows->get();
  check_gradient(t, given.values, given.sizes);
  check(is_leaf(t) && !retains_grad(t),
        "grad: only a leaf has a sparse gradient, and this tensor is computed from others");
  Gradient gradient{{}, rows};
  exchange_gradient(t, ensure_meta(t), gradient);
}

std::string grad_fn_name(const Tensor& t) {
  if (!t.requires_grad()) return "";
  if (is_unreachable_view(t)) return "Invalid";
  const NodeRef node = grad_fn_of(t);
  return node ? node->name() : "";
}

Tensor detach(const Tensor& t) {
  // Inside vmap, also from what is recorded of the values outside of it.
  if (const Batched* b = batched(t)) return make_batched(detach(b->value), b->dim, b->level);
  return shallow_copy(t);
}

void detach_(Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return;
  if (meta->base) {
    if (!meta->view.hidden_base || !meta->view.restrided)
      fail("detach_: a view cannot be cut off in place; use detach");
    detach_(meta->view.base);
  }
  meta->grad_fn = NodeRef();
  meta->requires_grad = false;
  meta->has_history = false;
}

bool is_view(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta && meta->base;
}

HookHandle register_hook(Tensor& t, Hook hook) {
  if (!t.requires_grad()) fail("register_hook: the tensor does not require grad");
  const int64_t id = new_hook_id();
  const NodeRef node = grad_fn_of(t);
  if (node) node->ensure_hooks();
  const std::shared_ptr<HookList> list = node ? node->hooks : leaf_hooks(t);
  list->add({id, node ? meta_of(t)->output : 0, std::move(hook), {}});
  return {list, id};
}

HookHandle register_post_accumulate_grad_hook(Tensor& t, PostAccumulateHook hook) {
  const char* op = "register_post_accumulate_grad_hook";
  if (!t.requires_grad()) fail(op, ": the tensor does not require grad");
  if (!is_leaf(t))
    fail(op, ": wants a leaf, and this tensor is computed from others (", grad_fn_name(t), ")");
  const int64_t id = new_hook_id();
  const std::shared_ptr<HookList> list = leaf_hooks(t);
  list->add({id, 0, {}, std::move(hook)});
  return {list, id};
}

bool hooks_held_elsewhere(const Tensor& t) {
  if (t.impl()->references.load(std::memory_order_acquire) > 1) return true;
  const AutogradMeta* meta = meta_of(t);
  return meta && meta->grad_fn.use_count() > 1;
}

void retain_grad(Tensor& t) {
  if (!t.requires_grad()) fail("retain_grad: the tensor does not require grad");
  if (execution.capture != nullptr) program::stop_capture("retain_grad", "keeps a gradient");
  const NodeRef node = grad_fn_of(t);
  AutogradMeta& meta = ensure_meta(t);
  if (!node || meta.retained) return;
  // The node keeps the gradient's position, not the tensor, whose history it is.
  meta.retained = memory::make_shared<Tensor>(grad_of(t));
  meta.grad = Tensor();
  meta.rows = nullptr;
  node->ensure_hooks().retain({meta.output, meta.retained});
}

bool retains_grad(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta && meta->retained;
}

}  // namespace moonlet
