// autograd/engine.cpp: runs recorded nodes backward. Nodes are taken by descending sequence
// number: a node's consumers were all recorded after it, so when it comes up its gradient is
// whole. Leaves come last, in the order they were reached.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "autograd/meta.h"
#include "autograd/ops.h"
#include "tensor/dispatch.h"

namespace moonlet {

namespace {

// A gradient on its way, and whether the engine made the sum itself and may add to it in place.
struct Slot {
  Tensor grad;
  bool own = false;
};

struct Task {
  static void* operator new(size_t) { return memory::FreeListOf<Task>::get(); }
  static void operator delete(void* task) { memory::FreeListOf<Task>::put(task); }

  NodeRef node;
  Slot one;                // the only output of most nodes
  std::vector<Slot> more;  // outputs after the first
  Slot& at(int i) { return i == 0 ? one : more[i - 1]; }
};

struct LeafTask {
  Tensor leaf;
  Slot slot;
};

// Sums `g` over the dims that broadcasting stretched, so that it has shape `sizes`.
Tensor sum_to(const Tensor& g, const Dims& sizes) {
  Dims dims;
  const int skip = g.dim() - sizes.size();
  for (int i = 0; i < g.dim(); ++i)
    if (i < skip || (sizes[i - skip] == 1 && g.size(i) != 1)) dims.push_back(i);
  Tensor out = dims.empty() ? g : sum(g, dims, true);
  return out.sizes() == sizes ? out : reshape(out, sizes);
}

// Makes a formula's result fit the tensor it is the gradient of.
Tensor fit(Tensor g, const GradMeta& meta, const char* node) {
  if (g.device() != meta.options.device)
    fail("backward: ", node, " gave a gradient on ", g.device(), " for a tensor on ",
         meta.options.device);
  if (!(g.sizes() == meta.sizes)) {
    if (!can_expand(meta.sizes, g.sizes()))
      fail("backward: ", node, " gave a gradient of shape ", g.sizes(), " for a tensor of shape ",
           meta.sizes);
    g = sum_to(g, meta.sizes);
  }
  if (g.dtype() != meta.options.dtype) {
    if (is_complex(g.dtype()) && !is_complex(meta.options.dtype)) g = real(g);
    g = to(g, meta.options.dtype);
  }
  return g;
}

// What a hook returns takes the gradient's place, so it must look like it.
void check_replacement(const Tensor& replaced, const Tensor& g) {
  if (replaced.sizes() == g.sizes() && replaced.dtype() == g.dtype() &&
      replaced.device() == g.device())
    return;
  fail("hook: a gradient of shape ", g.sizes(), ", ", g.dtype(), " on ", g.device(),
       " is wanted, got shape ", replaced.sizes(), ", ", replaced.dtype(), " on ",
       replaced.device());
}

template <class K, class V>
using Map = std::unordered_map<K, V, std::hash<K>, std::equal_to<K>,
                               memory::SmallBlockAllocator<std::pair<const K, V>>>;

class Engine {
 public:
  Engine(bool retain_graph, bool create_graph) : retain_(retain_graph), create_(create_graph) {}

  // Restricts the run to what leads to `inputs`, whose gradients are kept instead of accumulated.
  void capture(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  void seed(const Tensor& output, const Tensor& gradient);
  void run();
  void accumulate_leaves();
  Tensor captured(const Tensor& input);

 private:
  void add(const Edge& edge, Tensor g, const char* from);
  void add_to(Slot& slot, Tensor g);
  Task& task_of(const NodeRef& node);
  void run_node(Task& task);
  void run_hooks(Node& node, Task& task);
  void send(Node& node, Tensor* gradients);
  void mark_needed(const std::vector<Tensor>& outputs);

  bool retain_, create_;
  bool restricted_ = false;
  std::vector<std::unique_ptr<Task>> heap_;
  Map<Node*, Task*> tasks_;
  std::vector<LeafTask> leaves_;
  Map<TensorImpl*, size_t> leaf_index_;
  std::unordered_set<Node*> needed_;
  std::unordered_set<TensorImpl*> captured_leaves_;
  std::unordered_map<Node*, std::vector<Slot>> captured_nodes_;
};

bool later(const std::unique_ptr<Task>& a, const std::unique_ptr<Task>& b) {
  return a->node->sequence < b->node->sequence;
}

Task& Engine::task_of(const NodeRef& node) {
  Task*& task = tasks_[node.get()];
  if (!task) {
    auto fresh = std::make_unique<Task>();
    fresh->node = node;
    fresh->more.resize(node->output_count - 1);
    task = fresh.get();
    heap_.push_back(std::move(fresh));
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  return *task;
}

void Engine::add_to(Slot& slot, Tensor g) {
  if (!slot.grad.defined()) {
    slot.grad = std::move(g);
  } else if (slot.own && !create_) {
    add_(slot.grad, g);
  } else {
    slot.grad = moonlet::add(slot.grad, g);
    slot.own = true;
  }
}

void Engine::add(const Edge& edge, Tensor g, const char* from) {
  if (edge.node) {
    if (restricted_ && !needed_.contains(edge.node.get())) return;
    add_to(task_of(edge.node).at(edge.index), fit(std::move(g), edge.meta, from));
    return;
  }
  if (restricted_ && !captured_leaves_.contains(edge.leaf.impl())) return;
  auto [place, fresh] = leaf_index_.try_emplace(edge.leaf.impl(), leaves_.size());
  if (fresh) leaves_.push_back({edge.leaf, {}});
  add_to(leaves_[place->second].slot, fit(std::move(g), edge.meta, from));
}

void Engine::seed(const Tensor& output, const Tensor& gradient) {
  if (!output.requires_grad())
    fail("backward: the tensor does not require grad and has no grad_fn");
  Tensor g = gradient;
  if (!g.defined()) {
    if (output.numel() != 1)
      fail("backward: the output has shape ", output.sizes(),
           "; only a single-element output has a gradient of 1 by itself, so pass one");
    g = ones_like(output);
  }
  if (!(g.sizes() == output.sizes()))
    fail("backward: the gradient has shape ", g.sizes(), " and the output ", output.sizes());
  add(edge_of(output), g, "the given gradient");
}

void Engine::run_hooks(Node& node, Task& task) {
  const std::vector<HookEntry> hooks = node.hooks;  // a hook may remove itself
  for (const HookEntry& entry : hooks) {
    Slot& slot = task.at(entry.output);
    if (!slot.grad.defined()) continue;
    const Tensor replaced = entry.hook(slot.grad);
    if (!replaced.defined()) continue;
    check_replacement(replaced, slot.grad);
    slot = {replaced, false};
  }
}

void Engine::send(Node& node, Tensor* gradients) {
  for (size_t i = 0; i < node.edges.size(); ++i)
    if (node.edges[i].valid() && gradients[i].defined())
      add(node.edges[i], std::move(gradients[i]), node.name());
}

// Drops what a finished node holds. A hook of a script may refer to its own tensor, a cycle that no
// collector sees, so hooks go too; running the node again without them would be silently wrong.
void release(Node& node) {
  node.release_saved();
  if (node.hooks.empty()) return;
  node.hooks.assign(1, {0, 0, [name = node.name()](const Tensor&) -> Tensor {
                          fail("backward: the hooks of ", name,
                               " are freed already: this graph was used by an earlier backward; "
                               "pass retain_graph = true there to use it again");
                        }});
}

void Engine::run_node(Task& task) {
  Node& node = *task.node.get();
  if (!node.hooks.empty()) run_hooks(node, task);
  if (auto kept = captured_nodes_.find(&node); kept != captured_nodes_.end()) {
    for (int i = 0; i < node.output_count; ++i) kept->second[i] = task.at(i);
  }
  constexpr size_t kInline = 6;
  Tensor few[kInline];
  std::vector<Tensor> many;
  Tensor* gradients = few;
  if (node.edges.size() > kInline) {
    many.resize(node.edges.size());
    gradients = many.data();
  }
  if (node.output_count == 1) {
    node.apply(&task.one.grad, gradients);
  } else {
    std::vector<Tensor> grads;
    grads.reserve(node.output_count);
    for (int i = 0; i < node.output_count; ++i) grads.push_back(task.at(i).grad);
    node.apply(grads.data(), gradients);
  }
  if (!retain_) release(node);
  send(node, gradients);
}

void Engine::run() {
  GradModeGuard mode(create_);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const std::unique_ptr<Task> task = std::move(heap_.back());
    heap_.pop_back();
    tasks_.erase(task->node.get());
    run_node(*task);
  }
  for (LeafTask& task : leaves_) {
    const TapeMeta* meta = meta_of(task.leaf);
    if (!meta || meta->hooks.empty()) continue;
    const std::vector<HookEntry> hooks = meta->hooks;  // a hook may remove itself
    for (const HookEntry& entry : hooks) {
      const Tensor replaced = entry.hook(task.slot.grad);
      if (!replaced.defined()) continue;
      check_replacement(replaced, task.slot.grad);
      task.slot = {replaced, false};
    }
  }
}

void Engine::accumulate_leaves() {
  static std::mutex mutex;  // two threads may share a leaf
  const std::lock_guard<std::mutex> lock(mutex);
  GradModeGuard mode(create_);
  for (LeafTask& task : leaves_) {
    Tensor& g = task.slot.grad;
    TapeMeta& meta = ensure_meta(task.leaf);
    if (meta.grad.defined()) {
      if (create_)
        meta.grad = moonlet::add(meta.grad, g);
      else
        add_(meta.grad, g);
      continue;
    }
    // A gradient nobody else holds becomes the leaf's own; others are copied.
    const bool sole = task.slot.own || (g.impl()->references.load() == 1 && g.is_contiguous() &&
                                        g.storage().sole_owner());
    meta.grad = create_ ? g : sole ? std::move(g) : clone(g);
  }
}

Tensor Engine::captured(const Tensor& input) {
  const Edge edge = edge_of(input);
  if (edge.node) {
    auto kept = captured_nodes_.find(edge.node.get());
    return kept == captured_nodes_.end() ? Tensor() : kept->second[edge.index].grad;
  }
  auto place = leaf_index_.find(edge.leaf.impl());
  return place == leaf_index_.end() ? Tensor() : leaves_[place->second].slot.grad;
}

void Engine::mark_needed(const std::vector<Tensor>& outputs) {
  // Every node reachable, without recursion; ascending order visits producers before consumers.
  std::vector<Node*> order;
  std::unordered_set<Node*> seen;
  for (const Tensor& output : outputs) {
    const Edge edge = edge_of(output);
    if (edge.node && seen.insert(edge.node.get()).second) order.push_back(edge.node.get());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const Edge& edge : order[i]->edges)
      if (edge.node && seen.insert(edge.node.get()).second) order.push_back(edge.node.get());
  }
  std::sort(order.begin(), order.end(),
            [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  for (Node* node : order) {
    bool needed = captured_nodes_.contains(node);
    for (const Edge& edge : node->edges) {
      if (needed) break;
      needed = edge.node ? needed_.contains(edge.node.get())
                         : edge.valid() && captured_leaves_.contains(edge.leaf.impl());
    }
    if (needed) needed_.insert(node);
  }
}

void Engine::capture(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  restricted_ = true;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) fail("grad: an input does not require grad");
    const Edge edge = edge_of(input);
    if (edge.node)
      captured_nodes_[edge.node.get()].resize(edge.node->output_count);
    else
      captured_leaves_.insert(edge.leaf.impl());
  }
  mark_needed(outputs);
}

void seed_all(Engine& engine, const std::vector<Tensor>& outputs,
              const std::vector<Tensor>& gradients) {
  if (!gradients.empty() && gradients.size() != outputs.size())
    fail("backward: ", gradients.size(), " gradients for ", outputs.size(), " outputs");
  for (size_t i = 0; i < outputs.size(); ++i)
    engine.seed(outputs[i], gradients.empty() ? Tensor() : gradients[i]);
}

}  // namespace

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              bool retain_graph, bool create_graph) {
  Engine engine(retain_graph || create_graph, create_graph);
  seed_all(engine, outputs, gradients);
  engine.run();
  engine.accumulate_leaves();
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  Engine engine(retain_graph || create_graph, create_graph);
  engine.capture(inputs, outputs);
  seed_all(engine, outputs, gradients);
  engine.run();
  std::vector<Tensor> out;
  for (const Tensor& input : inputs) {
    out.push_back(engine.captured(input));
    if (!out.back().defined() && !allow_unused)
      fail("grad: input ", out.size(),
           " was not used to compute the outputs; "
           "pass allow_unused = true to get nil for it");
  }
  return out;
}

}  // namespace moonlet
