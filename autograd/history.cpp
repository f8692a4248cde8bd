// autograd/history.cpp: replays views whose base changed, and joins changes in place of a part to
// the history of the whole.
#include "autograd/history.h"

#include "autograd/ops_clone.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_shape.h"
#include "autograd/recording.h"
#include "tensor/modes.h"

namespace moonlet {

namespace {

uint64_t sequence_of(const Tensor& base) {
  const TapeMeta* meta = meta_of(base);
  return meta && meta->grad_fn ? meta->grad_fn->sequence() : 0;
}

// Elements from the first to the last that the strides reach.
int64_t span_of(const Dims& sizes, const Dims& strides) {
  int64_t span = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    span += (sizes[i] - 1) * strides[i];
  }
  return span;
}

// A change in place of a view, as a step in the history of the view's base: the part of the
// gradient that belongs to the view goes through the change, the rest passes.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const ViewRecord& view, NodeRef change)
      : base_(shallow_copy(base)), recipe_(view.recipe), change_(std::move(change)) {
    recorded().set_outer(this);
    edges = std::move(change_->edges);
    edges[0] = edge_of(base);
    set_output(0, base);
    number();
  }
  ~CopySlices() override { recorded().set_outer(nullptr); }

  const char* name() const override { return "CopySlices"; }

  void apply(Tensor* grads, Tensor* out, const Wanted& wanted) override {
    Tensor whole = laid_out_as_base(grads[0]);
    Tensor part = replay(*recipe_, whole);
    Tensor change_gradient = clone(part);
    recorded().run(&change_gradient, out, edges, wanted);
    if (!wanted(edges[0])) return;
    if (out[0].defined())
      copy_(part, out[0]);
    else
      fill_(part, 0.0);
    out[0] = whole;
  }

  void release_saved() override { change_->release_saved(); }

  RecordedNode& recorded() { return static_cast<RecordedNode&>(*change_); }

  // Output `output` of `node` is the view after the change.
  void set_part(Node& node, int output) {
    part_ = node.weak();
    part_output_ = output;
  }
  // `value`, which the view had after the change, with that history: the view's own node, where
  // hooks and `ml.grad` look for it, or when that is gone a new one.
  Tensor restore_part(const Tensor& value) {
    if (const NodeRef node = part_ ? part_->owner() : NodeRef())
      return with_history(value, node, part_output_);
    return replay(*recipe_, restore_output(base_, 0));
  }

 private:

  // A copy of `g` with the strides of the base, which the recipe may ask for.
  Tensor laid_out_as_base(const Tensor& g) const {
    Tensor buffer = zeros({span_of(base_.sizes(), base_.strides())}, options_of(g));
    Tensor whole = base_.is_contiguous() ? view(buffer, base_.sizes())
                                         : as_strided(buffer, base_.sizes(), base_.strides(), 0);
    copy_(whole, g);
    return whole;
  }

  const Tensor base_;  // without history
  const std::shared_ptr<const ViewStep> recipe_;
  const NodeRef change_;  // has no edges of its own, and no place in the order
  // The view's node, which leads here and therefore is not held.
  std::shared_ptr<const HookList> part_;
  int part_output_ = 0;
};

}  // namespace

// A chain of views may be long: neither its end nor its replay recurses.
ViewStep::~ViewStep() {
  std::shared_ptr<const ViewStep> next = std::move(before);
  while (next && next.use_count() == 1) next = std::move(const_cast<ViewStep&>(*next).before);
}

Tensor replay(const ViewStep& last, const Tensor& base) {
  std::vector<const ViewStep*> steps;
  for (const ViewStep* step = &last; step; step = step->before.get()) steps.push_back(step);
  Tensor out = base;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) out = (*step)->apply(out);
  return out;
}

bool is_unreachable_view(const Tensor& t) {
  const TapeMeta* meta = meta_of(t);
  return meta && meta->base && meta->view.no_grad && meta->view_requires_grad();
}

bool TapeMeta::view_requires_grad() const noexcept {
  const AutogradMeta* meta = base->autograd;
  if (!meta || !meta->has_history || view.storage != &view.base.storage()) return false;
  return !view.no_grad || view.base_sequence != sequence_of(view.base);
}

namespace {

bool is_stale(const Tensor& view, const TapeMeta& meta) {
  const ViewRecord& record = meta.view;
  if (record.storage != &record.base.storage()) return false;
  if (record.no_grad) return meta.view_requires_grad();
  return record.version != view.storage().version() && record.base.requires_grad();
}

void make_history_again(const Tensor& view, ViewRecord& record) {
  if (record.no_grad)
    fail(
        "this view was made under ml.no_grad, and its base was changed in place by a recorded op "
        "since, so its gradient is not defined; make the view while recording, or change the base "
        "under ml.no_grad too");
  const NoModes own_affair;
  const GradModeGuard on(true);
  const Tensor again = replay(*record.recipe, record.base);
  set_history(view, meta_of(again)->grad_fn, meta_of(again)->output);
  record.version = view.storage().version();
  record.base_sequence = sequence_of(record.base);
}

}  // namespace

NodeRef grad_fn_of(const Tensor& t) {
  TapeMeta* meta = meta_of(t);
  if (!meta) return {};
  // A view of a base without history is a leaf once it requires grad.
  if (meta->base && is_stale(t, *meta)) make_history_again(t, meta->view);
  return meta->grad_fn;
}

void detail::note_view(const Tensor& y, const Tensor& x, std::shared_ptr<ViewStep> step) {
  TapeMeta& meta = ensure_meta(y);
  ViewRecord& view = meta.view;
  const TapeMeta* parent = meta_of(x);
  if (parent && parent->base) {
    view.base = parent->view.base;
    step->before = parent->view.recipe;
    view.no_grad = parent->view.no_grad;
  } else {
    view.base = x;
  }
  view.no_grad = view.no_grad || !grad_enabled();
  view.recipe = std::move(step);
  view.storage = &y.storage();
  view.version = y.storage().version();
  view.base_sequence = sequence_of(view.base);
  meta.base = view.base.impl();
}

void own_memory(const Tensor& y) {
  TapeMeta* meta = meta_of(y);
  if (!meta) return;
  meta->base = nullptr;
  meta->view = {};
}

void check_inplace(const Tensor& x, const char* op) {
  const TapeMeta* meta = meta_of(x);
  if (x.requires_grad() && is_leaf(x)) {
    fail(op,
         ": a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
  if (!meta || !meta->base) return;
  if (meta->view.no_grad) {
    fail(op,
         ": this view was made under ml.no_grad, so a recorded in-place change would not reach its "
         "base; make the view while recording");
  }
  if (x.requires_grad() && is_leaf(meta->view.base)) {
    fail(op,
         ": a view of a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
}

void check_unrecorded_view(const Tensor& x, const char* op) {
  const TapeMeta* meta = meta_of(x);
  if (meta->view.no_grad && meta->view.base.requires_grad()) check_inplace(x, op);
}

void check_inplace_without_derivative(const Tensor& x, const char* op) {
  if (!grad_enabled() || !x.requires_grad()) return check_unrecorded(x, op);
  check_inplace(x, op);
  fail(op,
       ": this op has no derivative, so it cannot change a tensor that requires grad; "
       "detach it or wrap the change in ml.no_grad");
}

void rebase_history(const Tensor& x, const NodeRef& change) {
  const TapeMeta* meta = meta_of(x);
  if (!meta || !meta->base || meta->view.storage != &meta->view.base.storage()) {
    change->set_output(0, x);
    change->number();
    set_history(x, change);
    return;
  }
  auto* copy = new CopySlices(meta->view.base, meta->view, change);
  const NodeRef slices(copy);
  set_history(meta->view.base, slices);
  if (copy->recorded().needs_result()) copy->set_part(*grad_fn_of(x), meta->output);
  if (meta->retained) grad_fn_of(x);  // what it keeps from now on is the gradient of the new value
}

Tensor RecordedNode::restore_output(const Tensor& value, int i) {
  return outer_ ? static_cast<CopySlices*>(outer_)->restore_part(value)
                : Node::restore_output(value, i);
}

}  // namespace moonlet
