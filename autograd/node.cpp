// autograd/node.cpp: lifetime and order of nodes, and the tensors they save.
#include "autograd/node.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/history.h"
#include "autograd/uses_node.h"
#include "tensor/dispatch.h"

namespace moonlet {

namespace {
std::atomic<uint64_t> next_sequence{1};

// Nodes whose last reference went, waiting for their turn: freeing one may drop the last reference
// to the next, and a chain of 200,000 must not recurse.
struct PendingDeletes {
  std::vector<Node*> waiting;
  bool draining = false;
};
PendingDeletes& pending_deletes() {
  thread_local PendingDeletes instance;
  return instance;
}

void delete_in_turn(Node* node) {
  PendingDeletes& pending = pending_deletes();
  pending.waiting.push_back(node);
  if (pending.draining) return;
  pending.draining = true;
  while (!pending.waiting.empty()) {
    Node* next = pending.waiting.back();
    pending.waiting.pop_back();
    delete next;
  }
  pending.draining = false;
}
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

NodeRef::~NodeRef() {
  if (!node_) return;
  // The only holder needs no locked decrement: nobody else can add a reference.
  const bool sole = !node_->weakly_held_ && node_->references_.load(std::memory_order_acquire) == 1;
  if (sole || node_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete_in_turn(node_);
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
  sequence_ = next_sequence.fetch_add(1, std::memory_order_relaxed);
}

void Node::set_output(int i, const Tensor& t) {
  if (i == 0) {
    output_ = OutputMeta(t);
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
  if (!hooks) hooks = std::make_shared<HookList>();
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

void HookList::add(Entry entry) {
  const std::lock_guard lock(mutex_);
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
  return !retained_.empty() || std::any_of(entries_.begin(), entries_.end(),
                                           [](const Entry& entry) { return bool{entry.hook}; });
}

std::vector<HookList::Entry> HookList::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::vector<HookList::Retained> HookList::retained() const {
  const std::lock_guard lock(mutex_);
  return retained_;
}

void Saved::save(const Tensor& t) {
  if (!t.defined()) return;
  version_ = t.storage().version();
  const AutogradMeta* meta = meta_of(t);
  if (meta && t.requires_grad()) {
    producer_ = grad_fn_of(t);
    output_ = meta->output;
    if (!producer_) {
      // A leaf, which no later history can reach: it cannot be changed in place while recording.
      tensor_ = t;
      return;
    }
  }
  tensor_ = shallow_copy(t);
}

void Saved::save_clone(const Tensor& t) {
  const Edge edge = edge_of(t);
  producer_ = edge.node;
  output_ = edge.index;
  tensor_ = clone_plain(t);
  version_ = tensor_.storage().version();
}

void Saved::save_output(const Tensor& t, int output) {
  tensor_ = shallow_copy(t);
  version_ = t.storage().version();
  own_output_ = output;
}

void Saved::check_version(const Node& owner) const {
  if (tensor_.storage().version() == version_) [[likely]]
    return;
  const char* writer = tensor_.storage().last_writer();
  fail("backward: a tensor of shape ", tensor_.sizes(), " that ", owner.name(),
       " saved for its gradient was changed in place since, last by ",
       writer ? writer : "an unknown op", "; use the out-of-place form or clone it first");
}

Tensor Saved::unpack(Node& owner) const {
  if (!tensor_.defined()) return {};
  check_version(owner);
  if (!grad_enabled()) return tensor_;
  if (own_output_ != kNotOutput) return owner.restore_output(tensor_, own_output_);
  return producer_ ? with_history(tensor_, producer_, output_) : tensor_;
}

}  // namespace moonlet
