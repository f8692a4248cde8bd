// autograd/node.h: one recorded operation: edges to what produced its inputs, the tensors its
// derivative needs, and `apply`, which turns output gradients into input gradients.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/memory/free_list.h"
#include "tensor/operand.h"
#include "tensor/tensor.h"

namespace moonlet {

class Node;

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
  explicit operator bool() const { return node_ != nullptr; }
  // How many references there are; 0 without a node.
  int32_t use_count() const;

 private:
  Node* node_ = nullptr;
};

// What a gradient must look like: the geometry of the tensor it belongs to.
struct GradMeta {
  Dims sizes;
  Options options;
  GradMeta() = default;
  explicit GradMeta(const Tensor& t) : sizes(t.sizes()), options(options_of(t)) {}
};

// Where a gradient goes: output `index` of a node, or a leaf, or (neither) nowhere.
struct Edge {
  NodeRef node;
  int index = 0;
  Tensor leaf;
  GradMeta meta;
  bool valid() const { return node || leaf.defined(); }
};

using Edges = std::vector<Edge, memory::SmallBlockAllocator<Edge>>;

// The edge of a tensor: its producer, itself when a leaf that requires grad, or nowhere.
Edge edge_of(const Tensor& t);

// A hook sees a gradient and returns another to use instead, or an undefined one to keep it.
using Hook = std::function<Tensor(const Tensor&)>;
struct HookEntry {
  int64_t id;
  int output;
  Hook hook;
};

class Node {
 public:
  Node();
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  static void* operator new(size_t bytes) { return memory::SmallBlocks::get(bytes); }
  static void operator delete(void* node, size_t bytes) { memory::SmallBlocks::put(node, bytes); }

  // "ExpBackward"
  virtual const char* name() const = 0;
  // `grads`: one per output, defined unless the node has several outputs and no gradient reached
  // that one. `out`: one per edge; leave undefined what is zero or not needed.
  virtual void apply(const Tensor* grads, Tensor* out) = 0;
  // Drops saved tensors; a later `apply` that needs them throws.
  virtual void release_saved() = 0;

  bool needs(int i) const { return edges[i].valid(); }
  // Gradient of output i, zeros when none reached it.
  Tensor gradient_or_zeros(const Tensor* grads, int i) const;

  uint64_t sequence;
  int output_count = 1;
  Edges edges;
  std::vector<GradMeta> outputs;  // kept only when there are several
  std::vector<HookEntry> hooks;

 private:
  friend class NodeRef;
  std::atomic<int32_t> references_{1};
};

template <class T>
std::pair<NodeRef, T*> make_node() {
  T* node = new T();
  return {NodeRef(node), node};
}

// A tensor kept for the derivative. It remembers the version it had, so that a change in place
// between forward and backward is found. A node's own output is kept without its history, which
// would be a cycle, and given it back on unpacking.
class Saved {
 public:
  void save(const Tensor& t);
  // `clone`: for the input of an in-place op, whose value is about to be overwritten.
  void save_clone(const Tensor& t);
  void save_output(const Tensor& t, int output);
  // Throws when released, or changed in place since; the message names `owner` and the writer.
  Tensor unpack(Node& owner) const;
  void release();

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  int output_ = -1;
  bool released_ = false;
};

// The same for an argument that may be a number.
class SavedOperand {
 public:
  void save(const Operand& o);
  void save_clone(const Tensor& t) {
    is_tensor_ = true;
    tensor_.save_clone(t);
  }
  Operand unpack(Node& owner) const;
  void release() { tensor_.release(); }

 private:
  bool is_tensor_ = false;
  Saved tensor_;
  Scalar scalar_;
};

}  // namespace moonlet
