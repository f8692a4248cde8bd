// autograd/accumulate.cpp: the node at the end of each path: it adds a leaf's gradient, as soon as
// that is whole, to what the leaf has.
#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/program/leaf_gradients.h"
#include "autograd/unstoppable.h"
#include "autograd/uses_accumulate.h"
#include "tensor/core/layout.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/made_memory.h"

namespace moonlet {

namespace {

class AccumulateNode final : public Node {
 public:
  explicit AccumulateNode(const Tensor& leaf) : leaf_(leaf) {
    weakly_held_ = true;
    hooks = leaf_hooks(leaf);
    set_output(0, leaf);
    number();
  }
  ~AccumulateNode() override {
    AutogradMeta* meta = meta_of(leaf_);
    if (!meta) return;  // the leaf was given other memory and forgot its part on the tape
    const LeafLock lock(*meta);
    if (meta->accumulate == this) meta->accumulate = nullptr;
  }

  const char* name() const override { return "AccumulateGrad"; }
  Tensor variable() const override { return leaf_; }

  void apply(Tensor* grads, Tensor*, Wanted&) override {
    add_under_lock([&](AutogradMeta& meta) {
      const Tensor have = meta.rows ? sum({}, meta.rows->get().to_dense()) : meta.grad;
      meta.grad = sum(have, std::move(grads[0]));
      meta.rows = nullptr;
    });
  }

  bool takes_rows() const override { return leaf_.dim() == 2; }
  void apply_rows(const SparseRows& rows) override {
    add_under_lock([&](AutogradMeta& meta) {
      if (meta.grad.defined()) {
        const Unstoppable whole;
        index_add_(meta.grad, 0, rows.positions, rows.values);
      } else if (meta.rows)
        meta.rows->set(joined({meta.rows->get(), rows}));
      else
        meta.rows = memory::make_shared<SharedRows>(own(rows));
    });
  }

 private:
  // Runs `add` with the leaf's part on the tape, then the hooks that come after it.
  template <class F>
  void add_under_lock(F&& add) {
    AutogradMeta* meta = meta_of(leaf_);
    if (!meta || !meta->requires_grad) return;  // it was cut off since
    if (!(leaf_.sizes() == output(0).sizes))
      fail("backward: a leaf of shape ", output(0).sizes, " was given the shape ", leaf_.sizes(),
           " since it was used");
    const Options used = output(0).options;
    if (leaf_.dtype() != used.dtype || !(leaf_.device() == used.device))
      fail("backward: a leaf of ", used.dtype, " on ", used.device, " was given ", leaf_.dtype(),
           " on ", leaf_.device(), " since it was used");
    if (!is_leaf(leaf_))
      fail(
          "backward: a leaf that requires grad has got a history since it was used: its base was "
          "changed in place by a recorded op");
    {
      const ForwardModesOnly own_affair;  // no code of a script may run under the lock
      const LeafLock lock(*meta);
      check_position(*meta);
      program::note_leaf_gradient(leaf_, {meta->grad, meta->rows}, true);
      add(*meta);
    }
    if (hooks->empty()) return;
    Tensor leaf = leaf_;
    for (const HookList::Entry& entry : hooks->entries())
      if (entry.after) entry.after(leaf);
  }

  // Throws when the leaf was given another geometry since it was used. Under its lock.
  void check_position(const AutogradMeta& meta) const {
    if (meta.accumulate != this)
      fail("backward: a leaf of shape ", leaf_.sizes(),
           " was given other strides in place since it was used");
    if (!meta.grad.defined() && !meta.rows) return;
    const Dims sizes = meta.rows ? meta.rows->get().sizes : meta.grad.sizes();
    if (!(sizes == leaf_.sizes()))
      fail("backward: a leaf of shape ", leaf_.sizes(), " has a gradient of shape ", sizes,
           " from before it was given that shape; set its grad to nil first");
  }

  // What the leaf's gradient becomes when `g` is added to `have`, which may be undefined.
  Tensor sum(const Tensor& have, Tensor g) const {
    if (have.defined()) {
      if (grad_enabled()) return add(have, g);
      Tensor total = have;
      const Unstoppable whole;
      return add_(total, g);
    }
    // A gradient that nobody else holds becomes the leaf's own; it lies as the leaf does.
    const Dims strides = dense_strides(leaf_.sizes(), leaf_.strides());
    const bool own = !grad_enabled() && program::is_sole_handle(g) && g.strides() == strides &&
                     g.storage().sole_owner() &&
                     g.storage().bytes() == static_cast<size_t>(g.numel()) * size_of(g.dtype());
    if (own) return g;
    Tensor out = program::made_memory(empty_strided(g.sizes(), strides, options_of(g), "backward"));
    return copy_(out, g);
  }

  // Rows whose values nobody else holds: a gradient on its way may be shared or expanded.
  static SparseRows own(const SparseRows& rows) {
    const bool sole = rows.values.is_contiguous() && rows.values.storage().sole_owner();
    return sole ? rows : rows.clone();
  }

  const Tensor leaf_;
};

}  // namespace

std::shared_ptr<HookList> leaf_hooks(const Tensor& t) {
  AutogradMeta& meta = ensure_meta(t);
  const LeafLock lock(meta);
  if (!meta.hooks) meta.hooks = memory::make_shared<HookList>();
  return meta.hooks;
}

NodeRef accumulate_node(const Tensor& t) {
  AutogradMeta& meta = ensure_meta(t);
  // Made before the lock is taken: a loser's end takes the lock too.
  NodeRef fresh;
  for (;;) {
    {
      const LeafLock lock(meta);
      if (NodeRef found = Node::revive(meta.accumulate)) return found;
      if (fresh) {
        meta.accumulate = fresh.get();
        return fresh;
      }
    }
    fresh = NodeRef(new AccumulateNode(t));
  }
}

}  // namespace moonlet
