// autograd/dual_tensor.cpp: the tangents that tensors carry: those of views are parts of their
// base's, each lies in memory as its tensor does, and a change in place changes it too.
#include "autograd/dual_tensor.h"

#include <algorithm>

#include "autograd/custom_function.h"
#include "autograd/history.h"
#include "autograd/live_tangents.h"
#include "autograd/recording.h"
#include "autograd/uses_dual_tensor.h"
#include "tensor/core/layout.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

namespace {
Tensor own_tangent(const Tensor& x, uint64_t level) {
  const AutogradMeta* meta = meta_of(x);
  if (!meta || !meta->tangents) return {};
  for (const auto& [at, tangent] : meta->tangents->all)
    if (at == level) return tangent;
  return {};
}
}  // namespace

void set_tangent(const Tensor& x, uint64_t level, const Tensor& tangent) {
  AutogradMeta& meta = ensure_meta(x);
  auto changed = memory::make_shared<Tangents>();
  if (meta.tangents)
    for (const auto& entry : meta.tangents->all)
      if (entry.first != level) changed->all.push_back(entry);
  changed->all.emplace_back(level, tangent);
  note_tangents(changed);
  meta.tangents = std::move(changed);
}

namespace {
void tell_node(Node& node, const Tensor& y, int output) {
  if (auto* recorded = dynamic_cast<RecordedNode*>(&node))
    recorded->take_tangents(y, output);
  else
    autograd::take_tangents(node, y, output);
}
}  // namespace

void tell_producer(const Tensor& x) {
  const AutogradMeta& meta = *meta_of(x);
  if (meta.grad_fn) tell_node(*meta.grad_fn, x, meta.output);
}

namespace {
// The tensor whose tangent x's is a part of: its base, x itself where it is none or a dual tensor.
// A view of a dual tensor has a tangent that is a view of that one's.
Tensor tangent_root(const Tensor& x) {
  const AutogradMeta* meta = meta_of(x);
  if (!meta || !meta->base || meta->view.hidden_base) return x;
  const AutogradMeta* base = meta_of(meta->view.base);
  return base && base->base ? x : meta->view.base;
}
}  // namespace

Tensor tangent_of(const Tensor& x, uint64_t level) {
  if (!x.defined()) return {};
  // It may have got one since the view was made.
  const Tensor root = tangent_root(x);
  const Tensor whole = root.is_same(x) ? Tensor() : own_tangent(root, level);
  return whole.defined() ? meta_of(x)->view.recipe.replay(whole) : own_tangent(x, level);
}

namespace {
std::shared_ptr<const Tangents> tangents_or_copies(const Tensor& x, bool clones) {
  const AutogradMeta *meta = meta_of(x), *base = meta ? meta_of(tangent_root(x)) : nullptr;
  if (!meta || (!meta->tangents && !(base && base->tangents))) return nullptr;
  auto tangents = memory::make_shared<Tangents>();
  const auto take = [&](const std::shared_ptr<const Tangents>& of) {
    if (!of) return;
    for (const auto& [level, unused] : of->all) {
      const auto same = [at = level](const auto& entry) { return entry.first == at; };
      if (std::any_of(tangents->all.begin(), tangents->all.end(), same)) continue;
      const Tensor tangent = tangent_of(x, level);
      tangents->all.emplace_back(level, clones ? clone(tangent) : tangent);
    }
  };
  take(meta->tangents);
  if (base) take(base->tangents);
  if (tangents->all.empty()) return nullptr;
  note_tangents(tangents);
  return tangents;
}
}  // namespace

std::shared_ptr<const Tangents> tangents_of(const Tensor& x) {
  return tangents_or_copies(x, false);
}

void copy_tangents(const Tensor& from, const Tensor& to, bool clones) {
  if (auto tangents = tangents_or_copies(from, clones))
    ensure_meta(to).tangents = std::move(tangents);
}

Tensor laid_out_as(const Tensor& x, const Tensor& tangent) {
  if (x.strides() == tangent.strides() || !is_dense(x.sizes(), x.strides())) return tangent;
  Dims order, back = x.sizes();
  for (int d = 0; d < x.dim(); ++d) {
    int at = d;
    while (at > 0 && x.stride(static_cast<int>(order[at - 1])) < x.stride(d)) --at;
    order.insert(at, d);
  }
  for (int d = 0; d < x.dim(); ++d) back[static_cast<int>(order[d])] = d;
  const Tensor in_order = permute(tangent, order);
  return in_order.is_contiguous() ? tangent : permute(contiguous(in_order), back);
}

Tensor lifted(const Tensor& x, const BatchLevelRef& level) {
  if (!level) return x;
  if (const Batched* b = batched(x); b && b->level == level) return x;
  Tensor out = make_batched(x, kNotBatched, level);
  // Tangents of levels inside the vmap are those of its samples, others those of values.
  if (const auto tangents = tangents_of(x))
    for (const auto& [at, tangent] : tangents->all)
      if (has_tangents_of(out, at)) set_tangent(out, at, tangent);
  return out;
}

namespace {

// A view of x with all of its history, and tangents. Tangents that it gets are its own and those of
// its views: x has no part in them.
Tensor dual_view(const Tensor& x) {
  Tensor out = view(x, x.sizes());
  copy_tangents(x, out, false);
  if (AutogradMeta* meta = meta_of(out); meta && meta->base) meta->view.hidden_base = true;
  return out;
}

}  // namespace

Tensor make_dual(const Tensor& x, const Tensor& tangent, uint64_t level, bool keep) {
  check(level != 0, "make_dual: it is used inside of forward_ad.dual_level");
  check(is_differentiable(x.dtype()), "make_dual: a floating or complex tensor is expected, got ",
        x.dtype());
  check(tangent.sizes() == x.sizes() && tangent.dtype() == x.dtype() &&
            tangent.device().real() == x.device().real(),
        "make_dual: a tangent of shape ", x.sizes(), ", ", x.dtype(), " on ", x.device(),
        " is expected, got shape ", tangent.sizes(), ", ", tangent.dtype(), " on ",
        tangent.device());
  check(!tangent_of(x, level).defined(),
        "make_dual: the tensor has a tangent of this level of forward mode already");
  const BatchLevelRef vmap = find_batch_level(execution.vmap);
  Tensor out = dual_view(lifted(x, vmap));
  const Tensor own = lifted(tangent, vmap);
  set_tangent(out, level, laid_out_as(out, keep ? own : clone(own)));
  return out;
}

Tensor with_result_tangent(const Tensor& y, const Tensor& tangent, uint64_t level, bool changed) {
  check(tangent.sizes() == y.sizes() && tangent.dtype() == y.dtype(), "jvp: a tangent of shape ",
        y.sizes(), ", ", y.dtype(), " is expected, got shape ", tangent.sizes(), ", ",
        tangent.dtype());
  if (changed) {
    change_tangent(y, level, clone(tangent));
    return y;
  }
  // A view of an argument has the tangent that the function gave it, not a part of the argument's.
  if (AutogradMeta* meta = meta_of(y); meta && meta->base) meta->view.hidden_base = true;
  set_tangent(y, level, laid_out_as(y, clone(tangent)));
  tell_producer(y);
  return y;
}

Tensor without_tangent(const Tensor& x, uint64_t level) {
  Tensor out = dual_view(x);
  if (!own_tangent(out, level).defined()) return out;
  AutogradMeta& meta = ensure_meta(out);
  auto left = memory::make_shared<Tangents>(*meta.tangents);
  std::erase_if(left->all, [&](const auto& entry) { return entry.first == level; });
  note_tangents(left);
  meta.tangents = left->all.empty() ? nullptr : std::move(left);
  return out;
}

Tensor differentiation_input(const Tensor& x) {
  check(is_differentiable(x.dtype()), "a floating or complex tensor is expected, got ", x.dtype());
  const Tensor from = lifted(x, find_batch_level(execution.vmap));
  if (from.requires_grad() && grad_enabled()) return view(from, from.sizes());
  Tensor out = without_history(from);
  set_requires_grad(out, true);
  return out;
}

namespace {
// The vmaps, by depth as in Device::levels, in which x differs from sample to sample.
uint8_t levels_of_samples(const Tensor& x) {
  uint8_t out = 0;
  for (const Batched* b = batched(x); b != nullptr; b = batched(b->value))
    if (b->dim != kNotBatched) out = static_cast<uint8_t>(out | 1u << b->level->depth);
  return out;
}

// `whole`, or a copy for each sample of the vmaps in which `part` differs and it does not.
Tensor for_samples_of(const Tensor& whole, const Tensor& part) {
  Device device = part.device();
  if ((levels_of_samples(part) & ~levels_of_samples(whole)) == 0) return whole;
  device.levels = static_cast<uint8_t>(device.levels | whole.device().levels);
  Tensor out = empty(whole.sizes(), {whole.dtype(), device});
  return copy_(out, whole);
}
}  // namespace

namespace {
// Gives x's tangents to what its change in place, of which x may be a part only, saved of it.
void tell_change(const Tensor& x) {
  if (!is_part_of_base(x)) return meta_of(x) ? tell_producer(x) : void();
  const AutogradMeta* base = meta_of(root_of(meta_of(x)->view));
  Node* change = base && base->grad_fn ? change_of_part(*base->grad_fn) : nullptr;
  if (!change) return;
  const Tensor shown = without_history(x);
  copy_tangents(x, shown, false);
  if (!meta_of(shown)) return;
  for (int i = 0; i < change->output_count(); ++i) tell_node(*change, shown, i);
}
}  // namespace

void change_tangent(const Tensor& x, uint64_t level, const Tensor& next) {
  const Tensor root = tangent_root(x);
  Tensor whole = tangent_of(root, level);
  if (!whole.defined()) {
    if (!next.defined()) return;
    const AutogradMeta* meta = meta_of(x);
    check(!root.is_same(x) || !meta || !meta->base || meta->view.hidden_base,
          "a view of a dual tensor cannot be given a tangent of another level in place");
    whole = zeros_like(root);
  }
  if (next.defined()) whole = for_samples_of(whole, next);
  set_tangent(root, level, whole);
  Tensor have = tangent_of(x, level);
  next.defined() ? copy_(have, next) : fill_(have, 0.0);
  tell_change(x);
}

}  // namespace moonlet
