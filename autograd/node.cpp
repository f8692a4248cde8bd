// autograd/node.cpp: lifetime of nodes and of the tensors they save.
#include "autograd/node.h"

#include "autograd/meta.h"
#include "autograd/ops.h"
#include "tensor/dispatch.h"

namespace moonlet {

namespace {
std::atomic<uint64_t> next_sequence{1};

// Nodes whose last reference went, waiting for their turn: freeing one may drop the last reference
// to the next, and a chain of 200,000 must not recurse.
struct Graveyard {
  std::vector<Node*> waiting;
  bool draining = false;
};
Graveyard& graveyard() {
  thread_local Graveyard instance;
  return instance;
}

void bury(Node* node) {
  Graveyard& yard = graveyard();
  yard.waiting.push_back(node);
  if (yard.draining) return;
  yard.draining = true;
  while (!yard.waiting.empty()) {
    Node* next = yard.waiting.back();
    yard.waiting.pop_back();
    delete next;
  }
  yard.draining = false;
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
  // The only holder needs no locked decrement: nobody else can add a reference.
  if (node_ && (node_->references_.load(std::memory_order_acquire) == 1 ||
                node_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1))
    bury(node_);
}

Node::Node() : sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

Tensor Node::gradient_or_zeros(const Tensor* grads, int i) const {
  if (grads[i].defined()) return grads[i];
  return zeros(outputs[i].sizes, outputs[i].options);
}

void Saved::save(const Tensor& t) {
  if (!t.defined()) return;
  tensor_ = t;
  version_ = t.storage().version();
}

void Saved::save_clone(const Tensor& t) {
  tensor_ = clone_plain(t);
  version_ = tensor_.storage().version();
  const Edge edge = edge_of(t);
  if (edge.valid()) set_edge(tensor_, edge);
}

void Saved::save_output(const Tensor& t, int output) {
  tensor_ = shallow_copy(t);
  version_ = t.storage().version();
  output_ = output;
}

Tensor Saved::unpack(Node& owner) const {
  if (released_) {
    fail("backward: the tensors ", owner.name(),
         " saved are freed already: this graph was used by an earlier backward; "
         "pass retain_graph = true there to use it again");
  }
  if (!tensor_.defined()) return {};
  if (tensor_.storage().version() != version_) {
    const char* writer = tensor_.storage().last_writer();
    // Elementwise ops leave their plain name.
    std::string name = writer ? writer : "an unknown op";
    if (writer && name.back() != '_') name += '_';
    fail("backward: a tensor of shape ", tensor_.sizes(), " that ", owner.name(),
         " saved for its gradient was changed in place since, last by ", name,
         "; use the out-of-place form or clone it first");
  }
  if (output_ < 0) return tensor_;
  return with_history(tensor_, owner, output_);
}

void Saved::release() {
  if (!tensor_.defined()) return;
  tensor_ = Tensor();
  released_ = true;
}

void SavedOperand::save(const Operand& o) {
  is_tensor_ = o.is_tensor();
  if (is_tensor_)
    tensor_.save(o.tensor());
  else
    scalar_ = o.scalar();
}

Operand SavedOperand::unpack(Node& owner) const {
  return is_tensor_ ? Operand(tensor_.unpack(owner)) : Operand(scalar_);
}

}  // namespace moonlet
