// autograd/recording.cpp: saving and unpacking for recorded calls.
#include "autograd/recording.h"

#include <algorithm>
#include <cassert>

#include "autograd/unstoppable.h"
#include "autograd/uses_recording.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/memory_overlap.h"

namespace moonlet {

bool requires_grad(const std::vector<Tensor>& list) {
  for (const Tensor& t : list)
    if (requires_grad(t)) return true;
  return false;
}

std::vector<Dims> sizes_of(const std::vector<Tensor>& list) {
  std::vector<Dims> out;
  out.reserve(list.size());
  for (const Tensor& t : list) out.push_back(sizes_of(t));
  return out;
}

Tensor& assign_(Tensor& x, const Tensor& result, const char* op) {
  if (!(result.sizes() == x.sizes()))
    fail(op, ": the result has shape ", result.sizes(), " and the tensor to change ", x.sizes());
  if (!can_cast(result.dtype(), x.dtype()))
    fail(op, ": result type ", result.dtype(), " cannot be stored in ", x.dtype());
  return copy_(x, result);
}

Tensor before_change(const Tensor& x) { return grad_enabled() && requires_grad(x) ? clone(x) : x; }

void fail_out_gradient(const char* op) {
  fail(op,
       ": the out form is not recorded, and an input requires grad; use the plain form, or "
       "wrap the call in ml.no_grad");
}

void RecordedNode::take_tangents(const Tensor& y, int output) {
  for (Slot& slot : slots_) slot.saved.take_tangents(y, output);
}

void RecordedNode::take_inputs(std::span<const RecordedInput> inputs, const Tensor* changed) {
  uint32_t demanded = 0, argument = 1, differentiable = formula_.differentiable;
  edges.reserve(formula_.edges);
  for (const RecordedInput& input : inputs) {
    if (differentiable & 1u) {
      if (input.number()) edges.emplace_back();  // leads nowhere, but has its position
      for (const Tensor& t : input.tensors())
        if (edges.emplace_back(edge_of(t))) demanded |= argument;
      argument <<= 1;
    }
    differentiable >>= 1;
  }
  for (const Formula::Gradient& gradient : formula_.gradients) {
    if (gradient.targets == 0) break;
    if (gradient.targets & demanded) needed_ |= gradient.uses;
  }
  if (needed_ == 0) return;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (needs_slot(static_cast<int>(i))) save_input(static_cast<int>(i), inputs[i], changed);
}

void RecordedNode::save_input(int slot, const RecordedInput& input, const Tensor* changed) {
  if (const Scalar* number = input.number()) {
    slots_.push_back({slot, true, *number, {}});
    return;
  }
  for (const Tensor& t : input.tensors()) {
    Saved& saved = slots_.emplace_back(Slot{slot, false, {}, {}}).saved;
    // What the op is about to overwrite is kept as it was. What has no elements shares none, but
    // may share the count of changes.
    if (changed && t.defined() && (t.numel() == 0 || may_overlap(t, *changed)))
      saved.save_clone(t);
    else
      saved.save(t);
  }
}

void RecordedNode::take_result(int i, const Tensor& y, int output) {
  const int slot = formula_.inputs + i;
  if (!needs_slot(slot)) return;
  Saved& saved = slots_.emplace_back(Slot{slot, false, {}, {}}).saved;
  if (output >= 0)
    saved.save_output(y, output);
  else
    saved.save(y);
}

void RecordedNode::release_saved() {
  released_ = released_ || !slots_.empty();
  slots_.clear();
}

namespace {
// The name of a slot in Formula::slots, which `list` then says to be a list's.
std::string slot_name(const char* names, int slot, bool& list) {
  std::string_view rest = names;
  for (; slot > 0; --slot) rest.remove_prefix(std::min(rest.size(), rest.find(',') + 1));
  std::string_view name = rest.substr(0, rest.find(','));
  list = name.ends_with("[]");
  if (list) name.remove_suffix(2);
  return std::string(name);
}
}  // namespace

std::vector<std::string> RecordedNode::saved_names() const {
  std::vector<std::string> out;
  bool list = false;
  for (const Slot& slot : slots_) {
    std::string name = slot_name(formula_.slots, slot.slot, list);
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
  }
  return out;
}

bool RecordedNode::read_saved(std::string_view name, std::vector<Operand>& values, bool& list) {
  bool found = false;
  for (const Slot& slot : slots_) {
    bool is_list = false;
    const bool only_result = name == "result" && slot.slot == formula_.inputs;
    if (slot_name(formula_.slots, slot.slot, is_list) != name && !only_result) continue;
    found = true;
    list = is_list;
    values.push_back(slot.number ? Operand(slot.scalar) : Operand(slot.saved.unpack(*this)));
  }
  if (!found && released_)
    fail("grad_fn: what ", RecordedNode::name(), " saved is freed already by an earlier backward");
  return found;
}

void RecordedNode::run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) {
  Backward backward(*this, grads, out, edges, wanted);
  evaluate(backward);
}

bool Backward::needs(uint32_t targets) const {
  // Edges follow the differentiable arguments; those of a list come last.
  const size_t last = node_.formula_.edges - 1;
  for (size_t i = 0; i < edges_.size(); ++i) {
    const uint32_t bit = 1u << std::min(i, last);
    if ((targets & bit) && wanted_(edges_[i])) return true;
  }
  return false;
}

void Backward::check_kept() const {
  if (!node_.released_) [[likely]]
    return;
  fail("backward: the tensors ", node_.name(),
       " saved are freed already: this graph was used by an earlier backward; "
       "pass retain_graph = true there to use it again");
}

const RecordedNode::Slot* Backward::find(int slot) const {
  check_kept();
  for (const RecordedNode::Slot& each : node_.slots_)
    if (each.slot == slot) return &each;
  fail("backward: ", node_.name(), " did not save what its gradient needs (slot ", slot, ")");
}

Tensor Backward::saved(int slot) const { return find(slot)->saved.unpack(node_); }

Operand Backward::operand(int slot) const {
  const RecordedNode::Slot* found = find(slot);
  return found->number ? Operand(found->scalar) : Operand(found->saved.unpack(node_));
}

std::vector<Tensor> Backward::list(int slot) const {
  check_kept();
  std::vector<Tensor> out;
  for (const RecordedNode::Slot& each : node_.slots_)
    if (each.slot == slot) out.push_back(each.saved.unpack(node_));
  return out;
}

void Backward::give_list(int argument, std::vector<Tensor> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) out_[argument + i] = std::move(gradients[i]);
}

void record_results(RecordedNode* made, std::span<const RecordedInput> inputs,
                    std::span<const Tensor* const> results) {
  const NodeRef node(made);
  made->take_inputs(inputs, nullptr);
  made->number();
  int i = 0, output = 0;
  for (const Tensor* y : results) {
    // The same tensor twice would be saved with the node as its producer: a cycle.
    assert(!y->defined() || std::none_of(&results[0], &results[i], [&](const Tensor* before) {
      return before->is_same(*y);
    }));
    const bool tracked = made->tracks(i) && is_differentiable(y->dtype());
    if (tracked) {
      made->set_output(output, *y);
      set_history(*y, node, output);
    }
    made->take_result(i++, *y, tracked ? output : -1);
    output += tracked ? 1 : 0;
  }
}

InplaceRecording::InplaceRecording(RecordedNode* node, const char* op, const Tensor& x,
                                   std::span<const RecordedInput> inputs)
    : node_(node), ref_(node) {
  check_inplace(x, op);
  node->take_inputs(inputs, &x);
}

void InplaceRecording::finish(const Tensor& x) {
  const HistoryOfChange whole;
  rebase_history(x, ref_);
  node_->take_result(0, x, 0);
}

}  // namespace moonlet
