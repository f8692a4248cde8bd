// autograd/node.h: the graph of recorded operations: nodes, the edges between them, hooks, and the
// tensors a node saves for its derivative.
//
// Invariants: a node is numbered after its edges are made, so producers are older (have a lower
// number) than their consumers. Every edge ends in a node: in the one that produced a tensor, or in
// a leaf's accumulate node. What a gradient must look like is kept by the producer, per output.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"
#include "tensor/memory/free_list.h"

namespace moonlet {

class Node;
struct SparseRows;

// A counted reference to a node. Long chains are freed without recursion.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* adopted) : node_(adopted) {}
  // Another counted reference to a node that is alive.
  static NodeRef share(Node& node);
  NodeRef(const NodeRef& other);
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef();
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  // How many references there are; 0 without a node.
  int32_t use_count() const;

 private:
  Node* node_ = nullptr;
};

// What a gradient must look like: the geometry of the tensor it belongs to.
struct OutputMeta {
  Dims sizes;
  Options options;
  OutputMeta() = default;
  explicit OutputMeta(const Tensor& t) : sizes(t.sizes()), options(options_of(t)) {}
};

// Where a gradient goes: output `index` of a node, or nowhere.
struct Edge {
  NodeRef node;
  int index = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

using Edges = std::vector<Edge, memory::SmallBlockAllocator<Edge>>;

// The edge of a tensor: to its producer, to its accumulate node when it is a leaf that requires
// grad, or nowhere.
Edge edge_of(const Tensor& t);

// A hook sees a gradient and returns another to use instead, or an undefined one to keep it.
using Hook = std::function<Tensor(const Tensor&)>;
// Sees a leaf whose gradient has just been added to.
using PostAccumulateHook = std::function<void(Tensor&)>;

// Sees the gradients of all outputs before the node runs, and may put others in their places.
// Undefined ones are zero.
using NodePreHook = std::function<void(std::vector<Tensor>& grad_outputs)>;
// Sees what the node gave for its edges, too, and may put others in their places.
using NodeHook =
    std::function<void(std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs)>;

// The hooks of a node's outputs or of a leaf. Shared, so that a handle can remove its hook wherever
// the tensor's history has gone; locked, since threads may share a leaf. The getters give copies: a
// hook may remove itself.
class HookList {
 public:
  struct Entry {
    int64_t id;
    int output;
    Hook hook;  // one of the four
    PostAccumulateHook after;
    NodePreHook before_node = {};
    NodeHook after_node = {};
  };
  // The `grad` of a tensor after retain_grad, shared with the tensor.
  struct Retained {
    int output;
    std::shared_ptr<Tensor> grad;
  };

  void add(Entry entry);
  void remove(int64_t id);
  void retain(Retained kept);
  void forget(const std::shared_ptr<Tensor>& grad);
  std::vector<Entry> entries() const;
  std::vector<Retained> retained() const;
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  // Whether some of them see the gradient itself.
  bool see_gradient() const;
  // Whether some are the node's as a whole.
  bool see_node() const { return of_node_.load(std::memory_order_relaxed) != 0; }
  // What someone outside the tape keeps with the node.
  std::shared_ptr<void> attachment() const;
  void attach(std::shared_ptr<void> kept);
  // The node that said so with `Node::weak`, while it lives.
  NodeRef owner() const;

 private:
  friend class Node;
  mutable std::mutex mutex_;
  Node* owner_ = nullptr;
  std::atomic<size_t> size_{0};
  std::atomic<size_t> of_node_{0};
  std::vector<Entry, memory::SmallBlockAllocator<Entry>> entries_;
  std::vector<Retained, memory::SmallBlockAllocator<Retained>> retained_;
  std::shared_ptr<void> attachment_;
};

// Which gradients of a node the running backward has a use for, and what it takes besides tensors.
class Wanted {
 public:
  virtual bool operator()(const Edge& edge) const = 0;
  // The sum of the gradients that have come along the edge, where more may be added to it in place;
  // else null.
  virtual Tensor* so_far(const Edge& edge) const = 0;
  // Whether the gradient sent along the edge may be rows, and the way to send some.
  virtual bool takes_rows(const Edge& edge) const = 0;
  virtual void give_rows(const Edge& edge, SparseRows rows) = 0;
  // Whether gradients may go back through the same nodes again.
  virtual bool keeps_graph() const = 0;

 protected:
  ~Wanted() = default;
};

class Node {
 public:
  Node() = default;
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  static void* operator new(size_t bytes) { return memory::SmallBlocks::get(bytes); }
  static void operator delete(void* node, size_t bytes) { memory::SmallBlocks::put(node, bytes); }

  // "ExpBackward"
  virtual const char* name() const = 0;
  // `grads`: one per output, which may be moved out of; defined unless the node has several outputs
  // and no gradient reached that one. `out`: one per edge, undefined at first; what is zero or not
  // wanted stays so.
  virtual void apply(Tensor* grads, Tensor* out, Wanted& wanted) = 0;
  // Whether the gradient of the only output may come as rows, and what is done with them: then
  // instead of `apply`.
  virtual bool takes_rows() const { return false; }
  virtual void apply_rows(const SparseRows&) {}
  // Drops saved tensors; a later `apply` that needs them throws.
  virtual void release_saved() {}

  // Gives the node its position in the order of all nodes. Call once, after its edges are made.
  void number();
  uint64_t sequence() const { return sequence_; }

  int output_count() const { return 1 + static_cast<int>(more_outputs_.size()); }
  const OutputMeta& output(int i) const { return i == 0 ? output_ : more_outputs_[i - 1]; }
  void set_output(int i, const Tensor& t);
  // Gradient of output i, zeros when none reached it.
  Tensor gradient_or_zeros(const Tensor* grads, int i) const;
  // What it keeps of the call that it stands for, as scripts may ask: the names ("x", "y"); the
  // values of one, tensors with their history, and whether they were a list. False without it.
  virtual std::vector<std::string> saved_names() const { return {}; }
  virtual bool read_saved(std::string_view, std::vector<Operand>&, bool&) { return false; }
  // The leaf whose gradient it adds up, or undefined.
  virtual Tensor variable() const { return {}; }
  // `value`, which output i had, as a tensor with that history.
  virtual Tensor restore_output(const Tensor& value, int i);

  HookList& ensure_hooks();
  // What finds this node without holding it: its hooks, which must not be a leaf's. To be called
  // before other threads know of the node.
  std::shared_ptr<HookList> weak();

  Edges edges;
  std::shared_ptr<HookList> hooks;  // null for most
  // Where a script recorded it, where anomalies were looked for then (autograd/anomaly.h).
  std::unique_ptr<std::string> origin;

 protected:
  // Nodes that something refers to without a count pay a locked decrement at their end.
  bool weakly_held_ = false;

 private:
  friend class NodeRef;
  // Another reference unless the last one is gone already.
  bool try_retain() noexcept;
  // Now, or after those that are being deleted.
  static void delete_in_turn(Node* node) noexcept;

 public:
  // For the holder of a weak pointer, under the lock that the node's end takes too.
  static NodeRef revive(Node* node) {
    return node && node->try_retain() ? NodeRef(node) : NodeRef();
  }

 private:
  std::atomic<int32_t> references_{1};
  uint64_t sequence_ = 0;
  OutputMeta output_;
  std::vector<OutputMeta, memory::SmallBlockAllocator<OutputMeta>> more_outputs_;
};

// What a tensor to be saved became in the hands of hooks (autograd/saved_hooks.h).
class PackedTensor {
 public:
  PackedTensor() = default;
  virtual ~PackedTensor() = default;
  PackedTensor(const PackedTensor&) = delete;
  PackedTensor& operator=(const PackedTensor&) = delete;
  virtual Tensor unpack() const = 0;
};

// A tensor kept for the derivative. It remembers the version it had, so that a change in place
// between forward and backward is found. It holds the data and the history the tensor had, not the
// tensor itself, whose later history may lead to the node that saves it.
class Saved {
 public:
  void save(const Tensor& t);
  // The value of the input of an in-place op, which is about to be overwritten.
  void save_clone(const Tensor& t);
  // Output `output` of the node that saves it.
  void save_output(const Tensor& t, int output);
  // Gives a saved output `output` of its owner the tangents that `t` has got since.
  void take_tangents(const Tensor& t, int output);
  // Throws when changed in place since; the message names `owner` and the writer. With its history
  // when recording is on.
  Tensor unpack(Node& owner) const;

 private:
  void check_version(const Node& owner) const;
  void keep(const Tensor& t);
  Tensor value(const Node& owner) const;

  static constexpr int kNotOutput = -1;
  Tensor tensor_;
  std::shared_ptr<PackedTensor> packed_;  // instead of tensor_
  NodeRef producer_;  // with output_ the tensor's history; null for constants and leaves
  uint32_t version_ = 0;
  int output_ = 0;
  int own_output_ = kNotOutput;
};

}  // namespace moonlet
