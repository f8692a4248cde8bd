// autograd/history.cpp: replays views whose base changed, and joins changes in place of a part to
// the history of the whole.
#include "autograd/history.h"

#include <algorithm>
#include <optional>

#include "autograd/dual_tensor.h"
#include "autograd/recording.h"
#include "autograd/unstoppable.h"
#include "autograd/uses_history.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/memory_overlap.h"
#include "tensor/core/set.h"
#include "tensor/runtime/modes.h"

namespace moonlet {

namespace {

uint64_t sequence_of(const Tensor& base) {
  const AutogradMeta* meta = meta_of(base);
  return meta && meta->grad_fn ? meta->grad_fn->sequence() : 0;
}

// Whether the base was moved away from under the view.
bool is_parted(const ViewRecord& view) { return view.base_moves != root_of(view).impl()->moves; }

const PastGeometries* past_of(const Tensor& root) {
  const AutogradMeta* meta = meta_of(root);
  return meta ? meta->past.get() : nullptr;
}

// From one geometry over a storage to another.
struct StridedStep {
  Geometry from, to;
  Tensor operator()(const Tensor& x) const {
    return strided_view(x, to.sizes, to.strides, to.offset, from.strides, from.offset);
  }
};

// From the geometry that the base of a view has to the one that the view's recipe is for; none when
// that is the same.
std::optional<StridedStep> step_to_recipe(const ViewRecord& view) {
  const Tensor& root = root_of(view);
  const PastGeometries* past = past_of(root);
  if (!past || past->present == view.geometry) return {};
  return StridedStep{Geometry(root), past->all[view.geometry]};
}

Tensor remake(const ViewRecord& view) {
  const std::optional<StridedStep> back = step_to_recipe(view);
  const Tensor& root = root_of(view);
  return view.recipe.replay(back ? (*back)(root) : root);
}

std::shared_ptr<const ViewRecipe> shared_copy(const ViewRecipe& recipe) {
  return std::allocate_shared<const ViewRecipe>(memory::SmallBlockAllocator<ViewRecipe>(), recipe);
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
  CopySlices(const Tensor& base, const ViewRecord& view, NodeRef change, int edge)
      : base_(shallow_copy(base)),
        back_(step_to_recipe(view)),
        recipe_(view.recipe),
        change_(std::move(change)),
        edge_(edge) {
    changing().set_outer(this);
    edges = std::move(change_->edges);
    edges[edge_] = edge_of(base);
    set_output(0, base);
    number();
  }
  ~CopySlices() override { changing().set_outer(nullptr); }

  const char* name() const override { return "CopySlices"; }

  void apply(Tensor* grads, Tensor* out, Wanted& wanted) override {
    Tensor whole = laid_out_as_base(grads[0]);
    Tensor part = part_of(whole);
    Tensor change_gradient = clone(part);
    changing().run(&change_gradient, out, edges, wanted);
    Tensor& given = out[edge_];
    if (!wanted(edges[edge_])) return;
    if (given.defined())
      copy_(part, given);
    else
      fill_(part, 0.0);
    given = whole;
  }

  void release_saved() override { change_->release_saved(); }

  ChangeNode& changing() { return static_cast<ChangeNode&>(*change_); }

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
    return part_of(restore_output(base_, 0));
  }

 private:
  Tensor part_of(const Tensor& whole) const {
    return recipe_.replay(back_ ? (*back_)(whole) : whole);
  }

  // A copy of `g` with the strides of the base, which the recipe may ask for.
  Tensor laid_out_as_base(const Tensor& g) const {
    Tensor buffer = zeros({span_of(base_.sizes(), base_.strides())}, options_of(g));
    Tensor whole = base_.is_contiguous() ? view(buffer, base_.sizes())
                                         : as_strided(buffer, base_.sizes(), base_.strides(), 0);
    copy_(whole, g);
    return whole;
  }

  const Tensor base_;  // without history
  const std::optional<StridedStep> back_;
  const ViewRecipe recipe_;
  const NodeRef change_;  // has no edges of its own, and no position in the order
  const int edge_;        // of what the view was before
  // The view's node, which leads here and therefore is not held.
  std::shared_ptr<const HookList> part_;
  int part_output_ = 0;
};

}  // namespace

Node* change_of_part(Node& node) {
  auto* slices = dynamic_cast<CopySlices*>(&node);
  return slices ? &slices->changing() : nullptr;
}

// A chain of views may be long: neither its end nor its replay recurses.
void ViewRecipe::release_chain() noexcept {
  std::shared_ptr<const ViewRecipe> next = std::move(before);
  while (next && next.use_count() == 1) next = std::move(const_cast<ViewRecipe&>(*next).before);
}

Tensor ViewRecipe::replay(const Tensor& base) const {
  std::vector<const ViewRecipe*> steps;
  for (const ViewRecipe* each = this; each; each = each->before.get()) steps.push_back(each);
  Tensor out = base;
  for (auto each = steps.rbegin(); each != steps.rend(); ++each) out = (*each)->step(out);
  return out;
}

bool is_unreachable_view(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta && meta->base && meta->view.no_grad && meta->view_requires_grad();
}

const Tensor& root_of(const ViewRecord& view) {
  const AutogradMeta* meta = meta_of(view.base);
  return meta && meta->base ? meta->view.base : view.base;
}

bool AutogradMeta::view_requires_grad() const noexcept {
  const Tensor& root = root_of(view);
  const AutogradMetaInterface* meta = root.impl()->autograd;
  if (!meta || !meta->has_history || is_parted(view)) return false;
  return !view.no_grad || view.base_sequence != sequence_of(root);
}

namespace {

bool is_stale(const Tensor& view, const AutogradMeta& meta) {
  const ViewRecord& record = meta.view;
  if (is_parted(record)) return false;
  if (record.no_grad) return meta.view_requires_grad();
  return record.version != view.storage().version() && root_of(record).requires_grad();
}

// That the view's own history is that of the base and the memory as they are.
void note_present(const Tensor& view, ViewRecord& record) {
  record.version = view.storage().version();
  record.base_sequence = sequence_of(root_of(record));
}

void replay_history(const Tensor& view, ViewRecord& record) {
  if (record.of_function)
    fail(
        "this view was returned by a custom function, and its base was changed in place by a "
        "recorded op since, so its gradient is not defined; clone it in the function");
  if (record.no_grad)
    fail(
        "this view was made under ml.no_grad, and its base was changed in place by a recorded op "
        "since, so its gradient is not defined; make the view while recording, or change the base "
        "under ml.no_grad too");
  const NoModes own_affair;
  const GradModeGuard on(true);
  const Tensor again = remake(record);
  set_history(view, meta_of(again)->grad_fn, meta_of(again)->output);
  note_present(view, record);
}

}  // namespace

NodeRef grad_fn_of(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  if (!meta) return {};
  // A view of a base without history is a leaf once it requires grad.
  if (meta->base && is_stale(t, *meta)) replay_history(t, meta->view);
  return meta->grad_fn;
}

void detail::note_view(const Tensor& y, const Tensor& x, ViewRecipe::Step step) {
  AutogradMeta& meta = ensure_meta(y);
  ViewRecord& view = meta.view;
  const AutogradMeta* parent = meta_of(x);
  if (parent && parent->base) {
    view.base = parent->view.hidden_base ? x : parent->view.base;
    view.recipe.before = shared_copy(parent->view.recipe);
    view.no_grad = parent->view.no_grad;
    view.of_function = parent->view.of_function;
  } else {
    view.base = x;
  }
  view.no_grad = view.no_grad || !grad_enabled();
  view.recipe.step = std::move(step);
  const Tensor& root = root_of(view);
  view.base_moves = root.impl()->moves;
  if (const PastGeometries* past = past_of(root))
    view.geometry = parent && parent->base ? parent->view.geometry : past->present;
  note_present(y, view);
  meta.base = view.base.impl();
}

void own_memory(const Tensor& y) {
  AutogradMeta* meta = meta_of(y);
  if (!meta) return;
  meta->base = nullptr;
  meta->view = {};
}

void check_inplace(const Tensor& x, const char* op) {
  const AutogradMeta* meta = meta_of(x);
  if (x.requires_grad() && is_leaf(x)) {
    fail(op,
         ": a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
  if (!meta || !meta->base) return;
  if (meta->view.of_function) {
    fail(op,
         ": this view was returned by a custom function, whose backward a recorded in-place change "
         "would pass by; clone it first");
  }
  if (meta->view.no_grad) {
    fail(op,
         ": this view was made under ml.no_grad, so a recorded in-place change would not reach its "
         "base; make the view while recording");
  }
  if (x.requires_grad() && is_leaf(root_of(meta->view))) {
    fail(op,
         ": a view of a leaf that requires grad cannot be changed in place while recording; "
         "wrap the change in ml.no_grad");
  }
}

void check_unrecorded_view(const Tensor& x, const char* op) {
  const AutogradMeta* meta = meta_of(x);
  if (meta->view.no_grad && root_of(meta->view).requires_grad()) check_inplace(x, op);
}

void check_inplace_without_derivative(const Tensor& x, const char* op) {
  if (!grad_enabled() || !x.requires_grad()) return check_unrecorded(x, op);
  check_inplace(x, op);
  fail(op,
       ": this op has no derivative, so it cannot change a tensor that requires grad; "
       "detach it or wrap the change in ml.no_grad");
}

bool is_part_of_base(const Tensor& x) {
  const AutogradMeta* meta = meta_of(x);
  return meta && meta->base && !is_parted(meta->view);
}

void rebase_history(const Tensor& x, const NodeRef& change, int edge) {
  const AutogradMeta* meta = meta_of(x);
  if (!is_part_of_base(x)) {
    change->set_output(0, x);
    change->number();
    set_history(x, change);
    return;
  }
  const Tensor& root = root_of(meta->view);
  auto* copy = new CopySlices(root, meta->view, change, edge);
  const NodeRef slices(copy);
  set_history(root, slices);
  if (copy->changing().needs_result()) copy->set_part(*grad_fn_of(x), meta->output);
  // What these keep from now on is the gradient of the new value.
  const AutogradMeta* base = meta_of(meta->view.base);
  if (meta->retained) grad_fn_of(x);
  if (base->retained) grad_fn_of(meta->view.base);
}

namespace {

// All that a view was restrided to since its recipe made it is one step.
void restride_recipe(ViewRecord& view, const Geometry& from, const Geometry& to) {
  if (const auto* last = view.restrided ? view.recipe.step.target<StridedStep>() : nullptr) {
    view.recipe.step = StridedStep{last->from, to};
    return;
  }
  if (view.recipe.step) view.recipe.before = shared_copy(view.recipe);
  view.recipe.step = StridedStep{from, to};
  view.restrided = true;
}

// Whether y shows each element of x once, in other dimensions. May be false without need.
bool shows_all(const Tensor& x, const Geometry& y) {
  if (x.offset() != y.offset) return false;
  if (is_dense(x.sizes(), x.strides()) && is_dense(y.sizes, y.strides))
    return x.numel() == numel_of(y.sizes, "as_strided_");
  // The same steps, besides those that are not taken.
  std::vector<std::pair<int64_t, int64_t>> steps[2];
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) != 1) steps[0].emplace_back(x.stride(d), x.size(d));
  for (int d = 0; d < y.sizes.size(); ++d)
    if (y.sizes[d] != 1) steps[1].emplace_back(y.strides[d], y.sizes[d]);
  for (auto& each : steps) std::sort(each.begin(), each.end());
  return steps[0] == steps[1];
}

// x, a base, is about to get the geometry `to`; its views will be made again from that.
void note_geometry(const Tensor& x, const Geometry& to) {
  AutogradMeta& meta = ensure_meta(x);
  if (!meta.past) {
    meta.past = std::make_unique<PastGeometries>();
    meta.past->all.emplace_back(x);
  }
  PastGeometries& past = *meta.past;
  const auto found = std::find(past.all.begin(), past.all.end(), to);
  past.present = static_cast<uint32_t>(found - past.all.begin());
  if (found == past.all.end()) past.all.push_back(to);
}

// x becomes a view of `before`, which takes its place for the views there are of it.
void hide_base(const Tensor& x, const Tensor& before) {
  before.impl()->moves = x.impl()->moves;
  AutogradMeta& meta = ensure_meta(x);
  ensure_meta(before).past = std::move(meta.past);
  meta.view = ViewRecord();
  meta.view.base = before;
  meta.view.hidden_base = true;
  meta.view.base_moves = before.impl()->moves;
  if (const PastGeometries* past = past_of(before)) meta.view.geometry = past->present;
  note_present(x, meta.view);
  meta.base = before.impl();
}

void forget_geometries(const Tensor& x) {
  if (AutogradMeta* meta = meta_of(x)) meta->past.reset();
}

// Graphs that used a leaf hold a gradient of its old shape, and its views are views of that.
void move_leaf(const Tensor& x) {
  ++x.impl()->moves;
  AutogradMeta& meta = *meta_of(x);
  const LeafLock lock(meta);
  meta.accumulate = nullptr;
}

bool is_leaf_with_grad(const Tensor& x) { return x.requires_grad() && is_leaf(x); }

}  // namespace

void set_data(Tensor& x, const Tensor& y) {
  check(!x.device().is_batched() && !y.device().is_batched(),
        "data: a tensor inside vmap has no memory of its own to be given");
  if (!x.requires_grad()) return take_memory(x, y);
  check(!x.impl()->autograd->base,
        "data: this tensor is a view of one that requires grad; assign to that one's data");
  check(is_floating(y.dtype()) || is_complex(y.dtype()),
        "data: a tensor that requires grad cannot become ", y.dtype());
  const bool same = x.sizes() == y.sizes() && x.dtype() == y.dtype() && x.device() == y.device();
  check(same || is_leaf(x), "data: this tensor is computed from others, so shape ", x.sizes(), ", ",
        x.dtype(), " and ", x.device(), " must stay, got ", y.sizes(), ", ", y.dtype(), " and ",
        y.device());
  take_memory(x, y);
  if (!same) move_leaf(x);
}

bool detail::begin_restride(const Tensor& x, const char* op) {
  check(!x.device().is_batched(), op, ": cannot give a tensor inside vmap another shape in place");
  check_geometry_is_own(x, op);
  if (grad_enabled() && x.requires_grad())
    check_inplace(x, op);
  else
    check_unrecorded(x, op);
  return !is_unreachable_view(x);
}

Tensor detail::before_restride(const Tensor& x) {
  const AutogradMeta* meta = meta_of(x);
  if ((meta && meta->base) || is_leaf_with_grad(x)) return x;
  return meta && meta->grad_fn ? with_history(x, meta->grad_fn, meta->output) : shallow_copy(x);
}

Tensor& detail::finish_restride(Tensor& x, const Tensor& before, const Tensor& y, const char* op) {
  const HistoryOfChange whole;
  const bool leaf = is_leaf_with_grad(x);
  const bool base = !leaf && !before.is_same(x);
  const Geometry from{x}, to{y};
  if (base) {
    // What nobody else holds has no views.
    const bool shared = x.impl()->references.load(std::memory_order_acquire) > 1;
    if (overlaps_itself(to.sizes, to.strides) || (shared && !shows_all(x, to)))
      hide_base(x, before);
    else if (shared)
      note_geometry(x, to);
    else
      forget_geometries(x);
  }
  take_geometry(x, y);
  mark_changed(x, op);
  AutogradMeta* meta = meta_of(x);
  if (meta && meta->base) restride_recipe(meta->view, from, to);
  const AutogradMeta* made = meta_of(y);
  if (leaf) {
    move_leaf(x);
  } else if (made && made->grad_fn) {
    set_history(x, made->grad_fn, made->output);
    if (meta->base) note_present(x, meta->view);
  }
  return x;
}

Tensor ChangeNode::restore_output(const Tensor& value, int i) {
  return outer_ ? static_cast<CopySlices*>(outer_)->restore_part(value)
                : Node::restore_output(value, i);
}

}  // namespace moonlet
