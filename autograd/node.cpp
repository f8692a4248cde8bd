// autograd/node.cpp: lifetime and order of nodes, and the tensors they save.
#include "autograd/node.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/leaf_uses.h"
#include "autograd/node_stream.h"
#include "autograd/saved_hooks.h"
#include "autograd/uses_node.h"
#include "tensor/core/dispatch.h"
#include "tensor/runtime/passed_modes.h"
#include "tensor/runtime/stack.h"

namespace moonlet {

constinit thread_local const Node* unpacking_node = nullptr;
constinit thread_local bool refuses_unpacking = false;
constinit thread_local bool keeps_plain = false;

namespace {
std::atomic<uint64_t> next_sequence{1};

// Nodes whose last reference went, waiting for their turn: freeing one may drop the last reference
// to the next, and a chain of 200,000 must not recurse. They are a list of their own, since memory
// may be short when a graph is freed.
struct PendingDeletes {
  Node* first;
  bool draining;
};
constinit thread_local PendingDeletes pending_deletes = {};
}  // namespace

NodeRef::NodeRef(const NodeRef& other) : node_(other.node_) {
  if (node_) node_->references_.fetch_add(1, std::memory_order_relaxed);
}

NodeRef NodeRef::share(Node& node) {
  node.references_.fetch_add(1, std::memory_order_relaxed);
  return NodeRef(&node);
}

int32_t NodeRef::use_count() const {
  return node_ ? node_->references_.load(std::memory_order_acquire) : 0;
}

// Its number is of no use any more: the position holds the next one that waits.
void Node::delete_in_turn(Node* node) noexcept {
  PendingDeletes& pending = pending_deletes;
  node->sequence_ = reinterpret_cast<uintptr_t>(std::exchange(pending.first, node));
  if (pending.draining) return;
  pending.draining = true;
  while (pending.first != nullptr) {
    Node* const next = pending.first;
    pending.first = reinterpret_cast<Node*>(next->sequence_);
    delete next;
  }
  pending.draining = false;
}

NodeRef::~NodeRef() {
  if (!node_) return;
  // The only holder needs no locked decrement: nobody else can add a reference.
  const bool sole = !node_->weakly_held_ && node_->references_.load(std::memory_order_acquire) == 1;
  if (sole || node_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    Node::delete_in_turn(node_);
}

bool Node::try_retain() noexcept {
  int32_t count = references_.load(std::memory_order_relaxed);
  while (count > 0)
    if (references_.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) return true;
  return false;
}

void Node::number() {
  if (anomaly_mode != Anomaly::Ignore) [[unlikely]]
    note_origin(*this);
  const uint64_t position = next_sequence.fetch_add(1, std::memory_order_relaxed);
  sequence_ = position << kStreamBits | (sequence_ & kStreamMask);
}

void Node::set_output(int i, const Tensor& t) {
  if (i == 0) {
    output_ = OutputMeta(t);
    const Device device = t.device().real();
    sequence_ &= ~kStreamMask;
    if (has_streams(device)) sequence_ |= current_stream(device.index).id;
    return;
  }
  if (output_count() <= i) more_outputs_.resize(i);
  more_outputs_[i - 1] = OutputMeta(t);
}

Tensor Node::gradient_or_zeros(const Tensor* grads, int i) const {
  if (grads[i].defined()) return grads[i];
  return zeros(output(i).sizes, output(i).options);
}

Tensor Node::restore_output(const Tensor& value, int i) {
  return with_history(value, NodeRef::share(*this), i);
}

HookList& Node::ensure_hooks() {
  if (!hooks) hooks = memory::make_shared<HookList>();
  return *hooks;
}

std::shared_ptr<HookList> Node::weak() {
  ensure_hooks();
  weakly_held_ = true;
  const std::lock_guard lock(hooks->mutex_);
  hooks->owner_ = this;
  return hooks;
}

Node::~Node() {
  if (!weakly_held_ || !hooks) return;
  const std::lock_guard lock(hooks->mutex_);
  if (hooks->owner_ == this) hooks->owner_ = nullptr;
}

NodeRef HookList::owner() const {
  const std::lock_guard lock(mutex_);
  return Node::revive(owner_);
}

std::atomic<bool> LeafUses::any_hooks{false};

void HookList::add(Entry entry) {
  if (entry.after) LeafUses::any_hooks = true;
  const std::lock_guard lock(mutex_);
  if (entry.before_node || entry.after_node) ++of_node_;
  entries_.push_back(std::move(entry));
  ++size_;
}

void HookList::remove(int64_t id) {
  Entry removed;  // ends outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [id](const Entry& entry) { return entry.id == id; });
  if (found == entries_.end()) return;
  removed = std::move(*found);
  entries_.erase(found);
  --size_;
  if (removed.before_node || removed.after_node) --of_node_;
}

void HookList::retain(Retained kept) {
  const std::lock_guard lock(mutex_);
  retained_.push_back(std::move(kept));
  ++size_;
}

void HookList::forget(const std::shared_ptr<Tensor>& grad) {
  const std::lock_guard lock(mutex_);
  size_ -= std::erase_if(retained_, [&](const Retained& kept) { return kept.grad == grad; });
}

bool HookList::see_gradient() const {
  const std::lock_guard lock(mutex_);
  return !retained_.empty() || see_node() ||
         std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return bool{entry.hook}; });
}

std::shared_ptr<void> HookList::attachment() const {
  const std::lock_guard lock(mutex_);
  return attachment_;
}

void HookList::attach(std::shared_ptr<void> kept) {
  const std::lock_guard lock(mutex_);
  attachment_.swap(kept);
}

std::vector<HookList::Entry> HookList::entries() const {
  const std::lock_guard lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

std::vector<HookList::Retained> HookList::retained() const {
  const std::lock_guard lock(mutex_);
  return {retained_.begin(), retained_.end()};
}

namespace {
ModeEntry* active_modes() { return execution.modes ? execution.modes : passed_modes; }

// What the innermost hooks make of a tensor that is saved, or null where there are none.
std::shared_ptr<PackedTensor> pack(const Tensor& t) {
  if (keeps_plain) return nullptr;
  for (ModeEntry* e = active_modes(); e != nullptr; e = e->below) {
    auto* hooks = dynamic_cast<SavedTensorHooks*>(e->mode.get());
    if (!hooks) continue;
    check_stack("saved_tensors_hooks");
    const std::shared_ptr<Mode> held = e->mode;
    const ModesScope below(e->below);
    const PassedModesScope none(nullptr);
    const NoGrad no_grad;
    const uint32_t version = t.storage().version();
    std::shared_ptr<PackedTensor> packed = hooks->pack(shallow_copy(t));
    if (t.storage().version() != version)
      fail("saved_tensors_hooks: pack changed its tensor in place; it must leave it as it is");
    return packed;
  }
  return nullptr;
}

// What hooks made of the values of a tensor, and its tangents, which stay as they are.
class PackedWithTangents final : public PackedTensor {
 public:
  PackedWithTangents(std::shared_ptr<PackedTensor> values, std::shared_ptr<const Tangents> tangents)
      : values_(std::move(values)), tangents_(std::move(tangents)) {}
  Tensor unpack() const override {
    Tensor t = values_->unpack();
    if (!t.defined()) return t;
    Tensor out = shallow_copy(t);
    ensure_meta(out).tangents = tangents_;
    return out;
  }

 private:
  const std::shared_ptr<PackedTensor> values_;
  const std::shared_ptr<const Tangents> tangents_;
};
}  // namespace

void Saved::keep(const Tensor& t) {
  if (t.storage().is_inference()) [[unlikely]]
    fail("a tensor of shape ", t.sizes(),
         " was made in inference mode and cannot be saved for a gradient; clone it first");
  version_ = t.storage().version();
  if (active_modes()) [[unlikely]]
    packed_ = pack(t);
  if (packed_)
    if (auto tangents = tangents_of(t))
      packed_ = memory::make_shared<PackedWithTangents>(packed_, std::move(tangents));
}

void Saved::save(const Tensor& t) {
  if (!t.defined()) return;
  keep(t);
  const AutogradMeta* meta = meta_of(t);
  if (meta && t.requires_grad()) {
    producer_ = grad_fn_of(t);
    output_ = meta->output;
    if (!producer_) {
      // A leaf, which no later history can reach: it cannot be changed in place while recording.
      if (packed_)
        producer_ = accumulate_node(t);
      else
        tensor_ = t;
      return;
    }
  }
  if (packed_) return;
  tensor_ = without_history(t);
  if (meta && meta->base) copy_tangents(t, tensor_, false);
}

namespace {
// Without the tape; an op that a capture sees.
Tensor plain_clone(const Tensor& t) {
  if (execution.capture == nullptr) [[likely]]
    return clone_plain(t);
  const NoModes own_affair;
  const NoGrad unrecorded;
  return clone(t);
}
}  // namespace

void Saved::save_clone(const Tensor& t) {
  const Edge edge = edge_of(t);
  producer_ = edge.node;
  output_ = edge.index;
  // The values of samples keep the history that they have outside of the vmap.
  tensor_ = t.device().is_batched() ? without_history(clone(t)) : plain_clone(t);
  copy_tangents(t, tensor_, true);
  const NoGrad unrecorded;
  keep(tensor_);
  if (packed_) tensor_ = Tensor();
}

void Saved::save_output(const Tensor& t, int output) {
  keep(t);
  if (!packed_) tensor_ = without_history(t);
  own_output_ = output;
}

void Saved::take_tangents(const Tensor& t, int output) {
  if (own_output_ != output) return;
  if (packed_) packed_ = memory::make_shared<PackedWithTangents>(packed_, meta_of(t)->tangents);
  if (tensor_.defined()) ensure_meta(tensor_).tangents = meta_of(t)->tangents;
}

void Saved::check_version(const Node& owner) const {
  if (tensor_.storage().version() == version_) [[likely]]
    return;
  const char* writer = tensor_.storage().last_writer();
  fail("backward: a tensor of shape ", tensor_.sizes(), " that ", owner.name(),
       " saved for its gradient was changed in place since, last by ",
       writer ? writer : "an unknown op", "; use the out-of-position form or clone it first");
}

// The data, which hooks give again.
Tensor Saved::value(const Node& owner) const {
  if (!packed_) {
    check_version(owner);
    return tensor_;
  }
  if (refuses_unpacking)
    fail("what ", owner.name(), " saved for its gradient went through hooks of saved tensors");
  const NoGrad no_grad;
  const std::shared_ptr<PackedTensor> held = packed_;
  struct Unpacking {
    explicit Unpacking(const Node* node) : before(std::exchange(unpacking_node, node)) {}
    ~Unpacking() { unpacking_node = before; }
    Unpacking(const Unpacking&) = delete;
    Unpacking& operator=(const Unpacking&) = delete;
    const Node* const before;
  } const scope(&owner);
  const Tensor t = held->unpack();
  if (!t.defined()) fail("saved_tensors_hooks: unpack gave no tensor");
  return without_history(t);
}

Tensor Saved::unpack(Node& owner) const {
  if (!tensor_.defined() && !packed_) return {};
  Tensor t = value(owner);
  if (!grad_enabled()) return t;
  if (own_output_ != kNotOutput) return owner.restore_output(t, own_output_);
  return producer_ ? with_history(t, producer_, output_) : t;
}

}  // namespace moonlet
