// autograd/engine.cpp: runs recorded nodes backward. Nodes are taken by descending sequence number:
// a node's consumers were all recorded after it, so when it comes up its gradient is whole. A
// leaf's accumulate node is older than all that use the leaf, and adds its gradient when its turn
// comes, or, where hooks wait for it, when the last that uses the leaf has run.
#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/backward_observer.h"
#include "autograd/engine.h"
#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/leaf_uses.h"
#include "autograd/node_streams.h"
#include "autograd/recording.h"
#include "autograd/uses_engine.h"
#include "tensor/program/captured_call.h"
#include "tensor/runtime/modes.h"

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

  explicit Task(NodeRef to_run) : node(std::move(to_run)), more(node->output_count() - 1) {}

  NodeRef node;
  Slot one;                      // the only output of most nodes
  std::vector<Slot> more;        // outputs after the first
  std::vector<SparseRows> rows;  // what came to a leaf beside tensors
  bool ran = false;              // before its turn
  Slot& at(int i) { return i == 0 ? one : more[i - 1]; }
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
Tensor fit(Tensor g, const OutputMeta& meta, const char* node) {
  // Inside vmap the gradient of a constant may be one per sample, and the other way round.
  if (g.device().real() != meta.options.device.real())
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

// What a hook returns takes the gradient's position, so it must look like it.
void check_replacement(const Tensor& replaced, const Tensor& g) {
  // Inside vmap what is the same for all samples may stand for what is not.
  if (replaced.sizes() == g.sizes() && replaced.dtype() == g.dtype() &&
      replaced.device().real() == g.device().real())
    return;
  fail("hook: a gradient of shape ", g.sizes(), ", ", g.dtype(), " on ", g.device(),
       " is expected, got shape ", replaced.sizes(), ", ", replaced.dtype(), " on ",
       replaced.device());
}

template <class K, class V>
using Map = std::unordered_map<K, V, std::hash<K>, std::equal_to<K>,
                               memory::SmallBlockAllocator<std::pair<const K, V>>>;

class Engine final : public Wanted {
 public:
  Engine(bool retain_graph, bool create_graph) : retain_(retain_graph), create_(create_graph) {}

  // Restricts the run to what leads to `inputs`, whose gradients are kept.
  // With `accumulate` leaves among them get theirs instead.
  void capture(const std::vector<Edge>& inputs, const std::vector<Edge>& outputs, bool accumulate);
  void stop_at_inputs(bool sums);
  void seed(const Edge& edge, const Tensor& gradient);
  void run();
  // The gradient of a captured input, or undefined.
  Tensor captured(const Edge& input) const;
  // The same of a run that stops at its inputs.
  ReachingGradients reaching(const Edge& input) {
    End& end = ends_.at(input.node.get())[input.index];
    return {std::move(end.parts), std::move(end.sum.grad), end.ways};
  }
  bool has_so_far(const Edge& edge) const {
    const auto found = tasks_.find(edge.node.get());
    return found != tasks_.end() &&
           (found->second->at(edge.index).grad.defined() || !found->second->rows.empty());
  }

  // Whether a gradient sent along the edge has a use.
  bool operator()(const Edge& edge) const override {
    return edge &&
           (!restricted_ || runs_.contains(edge.node.get()) || captured_.contains(edge.node.get()));
  }
  // The same of the engine that runs, for hooks.
  bool computes(const Edge& edge);
  uint64_t number() const { return number_; }
  bool keeps_graph() const override { return retain_; }
  void add_end(std::function<void()> f) { ends_with_.push_back(std::move(f)); }

  Tensor* so_far(const Edge& edge) const override;
  bool takes_rows(const Edge& edge) const override;
  void give_rows(const Edge& edge, SparseRows rows) override {
    if (ends_at(edge)) fail("backward: a gradient comes as the rows of a sparse embedding");
    streams_.hand_over(rows.positions, *edge.node);
    streams_.hand_over(rows.values, *edge.node);
    task_of(edge.node).rows.push_back(std::move(rows));
  }

 private:
  void add(const Edge& edge, Tensor g, const char* from);
  bool may_change(const Slot& slot) const;
  void add_to(Slot& slot, Tensor g);
  Task& task_of(const NodeRef& node);
  // Whether it leads to an input at which the run stops.
  bool ends_at(const Edge& edge) const {
    return !ends_.empty() && edge && ends_.contains(edge.node.get());
  }
  void end(const Edge& edge, Tensor g);
  // What lies at an end so far, where it may be added to in place.
  Tensor* so_far_at_end(const Edge& edge);
  void run_hooks(const HookList& hooks, Task& task);
  void finish(Task& task);
  void finish_and_explain(Task& task);
  bool finish_rows(Task& task);
  void run_node(Task& task);
  void apply_with_hooks(Node& node, Tensor* grads, Tensor* gradients);
  void send(Node& node, Tensor* gradients);

  bool retain_, create_;
  bool restricted_ = false, sums_ = false;
  NodeStreams streams_;
  std::vector<std::function<void()>> ends_with_;
  const uint64_t number_ = ++last_number;
  static inline std::atomic<uint64_t> last_number{0};
  std::vector<Node*> roots_;
  std::unordered_set<Node*> reachable_;  // when a hook has asked
  std::vector<std::unique_ptr<Task>> heap_;
  Map<Node*, Task*> tasks_;
  std::unordered_set<Node*> runs_;                           // when restricted
  std::unordered_map<Node*, std::vector<Tensor>> captured_;  // gradients per output
  // Of those at which it stops.
  struct End {
    std::vector<Tensor> parts;
    Slot sum;
    int ways = 0;
  };
  std::unordered_map<Node*, std::vector<End>> ends_;
};

bool recorded_before(const std::unique_ptr<Task>& a, const std::unique_ptr<Task>& b) {
  return a->node->sequence() < b->node->sequence();
}

Task& Engine::task_of(const NodeRef& node) {
  Task*& task = tasks_[node.get()];
  if (!task) {
    heap_.push_back(std::make_unique<Task>(node));
    task = heap_.back().get();
    std::push_heap(heap_.begin(), heap_.end(), recorded_before);
  }
  return *task;
}

// Nobody else has the gradient, nor its memory where it did not come as a sum. One that may have a
// tangent is not changed: where it is written past the modes, through a bare view, the tangent
// would stay as it was.
bool Engine::may_change(const Slot& slot) const {
  const Tensor& g = slot.grad;
  if (derivatives_wanted() || !g.defined() || g.device().is_batched() ||
      !program::is_sole_handle(g))
    return false;
  return slot.own || (g.storage().sole_owner() && is_dense(g.sizes(), g.strides()));
}

Tensor* Engine::so_far(const Edge& edge) const {
  if (ends_at(edge)) return const_cast<Engine*>(this)->so_far_at_end(edge);
  const auto found = tasks_.find(edge.node.get());
  if (found == tasks_.end() || !NodeStreams::is_current(*edge.node)) return nullptr;
  Slot& slot = found->second->at(edge.index);
  if (!may_change(slot)) return nullptr;
  slot.own =
      true;  // nobody else has its memory, though a capture may keep views that were made of it
  return &slot.grad;
}

// A gradient that is recorded, has a tangent, or is given to whoever asked for it, is a tensor.
bool Engine::takes_rows(const Edge& edge) const {
  const bool runs = !restricted_ || runs_.contains(edge.node.get()) || ends_at(edge);
  return edge && !derivatives_wanted() && runs && edge.node->takes_rows();
}

void Engine::add_to(Slot& slot, Tensor g) {
  if (!slot.grad.defined()) {
    slot.grad = std::move(g);
  } else if (may_change(slot)) {
    add_(slot.grad, g);
  } else {
    slot.grad = moonlet::add(slot.grad, g);
    slot.own = true;
  }
}

void Engine::add(const Edge& edge, Tensor g, const char* from) {
  streams_.hand_over(g, *edge.node);
  const NodeStreams::Scope in_stream(streams_, *edge.node);
  g = fit(std::move(g), edge.node->output(edge.index), from);
  if (ends_at(edge)) [[unlikely]]
    return end(edge, std::move(g));
  add_to(task_of(edge.node).at(edge.index), std::move(g));
}

void Engine::end(const Edge& edge, Tensor g) {
  End& end = ends_[edge.node.get()][edge.index];
  ++end.ways;
  if (sums_)
    add_to(end.sum, std::move(g));
  else
    end.parts.push_back(std::move(g));
}

Tensor* Engine::so_far_at_end(const Edge& edge) {
  End& end = ends_[edge.node.get()][edge.index];
  if (!sums_ || !may_change(end.sum)) return nullptr;
  ++end.ways;  // who asks adds to it
  end.sum.own = true;
  return &end.sum.grad;
}

void Engine::seed(const Edge& edge, const Tensor& gradient) {
  if (!edge) fail("backward: the tensor does not require grad and has no grad_fn");
  const OutputMeta& output = edge.node->output(edge.index);
  Tensor g = gradient;
  if (!g.defined()) {
    if (numel_of(output.sizes, "backward") != 1)
      fail("backward: the output has shape ", output.sizes,
           "; only a single-element output has a gradient of 1 by itself, so pass one");
    g = ones(output.sizes, output.options);
  }
  if (!(g.sizes() == output.sizes))
    fail("backward: the gradient has shape ", g.sizes(), " and the output ", output.sizes);
  roots_.push_back(edge.node.get());
  if ((*this)(edge)) add(edge, g, "the given gradient");
}

void Engine::run_hooks(const HookList& hooks, Task& task) {
  for (const HookList::Entry& entry : hooks.entries()) {
    if (!entry.hook) continue;
    Slot& slot = task.at(entry.output);
    if (!slot.grad.defined()) continue;
    slot.own = false;  // the hook may keep it
    const Tensor replaced = entry.hook(slot.grad);
    if (!replaced.defined()) continue;
    check_replacement(replaced, slot.grad);
    slot.grad = replaced;
  }
  for (const HookList::Retained& kept : hooks.retained()) {
    const Tensor& g = task.at(kept.output).grad;
    if (g.defined()) *kept.grad = kept.grad->defined() ? moonlet::add(*kept.grad, g) : clone(g);
  }
}

void Engine::send(Node& node, Tensor* gradients) {
  for (size_t i = 0; i < node.edges.size(); ++i) {
    const Edge& edge = node.edges[i];
    if (!gradients[i].defined() || !(*this)(edge)) continue;
    if (edge.node->sequence() >= node.sequence()) [[unlikely]]
      fail("backward: ", edge.node->name(), " is newer than ", node.name(), ", which it feeds");
    add(edge, std::move(gradients[i]), node.name());
  }
}

// Gives a leaf the rows that came to it, and true; or where a tensor came too, or hooks want to see
// one, adds them to it.
bool Engine::finish_rows(Task& task) {
  Node& node = *task.node;
  const SparseRows rows = joined(task.rows);
  task.rows.clear();
  if (task.one.grad.defined() || (node.hooks && node.hooks->see_gradient())) {
    add_to(task.one, rows.to_dense());
    return false;
  }
  node.apply_rows(rows);
  return true;
}

// Shows a whole gradient to hooks, keeps it if it is asked for, and runs the node.
void Engine::finish(Task& task) {
  Node& node = *task.node;
  if (!task.rows.empty() && finish_rows(task)) [[unlikely]]
    return;
  if (const std::shared_ptr<HookList> hooks = node.hooks; hooks && !hooks->empty())
    run_hooks(*hooks, task);
  if (restricted_) {
    if (auto kept = captured_.find(&node); kept != captured_.end())
      for (int i = 0; i < node.output_count(); ++i) kept->second[i] = task.at(i).grad;
    if (!runs_.contains(&node)) return;
  }
  run_node(task);
}

// Runs the node with its own hooks around it. A hook that has seen a gradient may keep it.
void Engine::apply_with_hooks(Node& node, Tensor* grads, Tensor* gradients) {
  const std::vector<HookList::Entry> entries = node.hooks->entries();
  std::vector<Tensor> outputs(grads, grads + node.output_count());
  const std::vector<Tensor> before = outputs;
  for (const HookList::Entry& entry : entries)
    if (entry.before_node) entry.before_node(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined() && before[i].defined()) check_replacement(outputs[i], before[i]);
    if (!outputs[i].defined() && before[i].defined())
      outputs[i] = node.gradient_or_zeros(outputs.data(), static_cast<int>(i));
    grads[i] = outputs[i];
  }
  node.apply(grads, gradients, *this);
  std::vector<Tensor> inputs(gradients, gradients + node.edges.size());
  bool seen = false;
  for (const HookList::Entry& entry : entries) seen = seen || entry.after_node;
  // Hooks see the gradients as they are sent on.
  for (size_t i = 0; seen && i < inputs.size(); ++i)
    if (const Edge& edge = node.edges[i]; edge && inputs[i].defined())
      inputs[i] = fit(std::move(inputs[i]), edge.node->output(edge.index), node.name());
  for (const HookList::Entry& entry : entries)
    if (entry.after_node) entry.after_node(inputs, outputs);
  std::copy(inputs.begin(), inputs.end(), gradients);
}

void Engine::run_node(Task& task) {
  Node& node = *task.node;
  constexpr size_t kInline = 6;
  Tensor few[kInline];
  std::vector<Tensor> many;
  Tensor* gradients = few;
  if (node.edges.size() > kInline) {
    many.resize(node.edges.size());
    gradients = many.data();
  }
  if (node.hooks && node.hooks->see_node()) [[unlikely]] {
    std::vector<Tensor> grads;
    grads.reserve(node.output_count());
    for (int i = 0; i < node.output_count(); ++i) grads.push_back(std::move(task.at(i).grad));
    apply_with_hooks(node, grads.data(), gradients);
  } else if (task.more.empty()) {
    node.apply(&task.one.grad, gradients, *this);
  } else {
    std::vector<Tensor> grads;
    grads.reserve(node.output_count());
    for (int i = 0; i < node.output_count(); ++i) grads.push_back(std::move(task.at(i).grad));
    node.apply(grads.data(), gradients, *this);
  }
  if (anomaly_mode == Anomaly::DetectNan) [[unlikely]]
    check_numbers(node, gradients);
  if (!retain_) node.release_saved();
  task.one.grad = Tensor();
  send(node, gradients);
}

thread_local Engine* running_engine = nullptr;

struct RunningEngine {
  explicit RunningEngine(Engine* engine) : before(std::exchange(running_engine, engine)) {}
  ~RunningEngine() { running_engine = before; }
  RunningEngine(const RunningEngine&) = delete;
  RunningEngine& operator=(const RunningEngine&) = delete;
  Engine* const before;
};

// Every node reachable, without recursion.
std::vector<Node*> reachable_from(const std::vector<Node*>& roots) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen;
  for (Node* root : roots)
    if (seen.insert(root).second) order.push_back(root);
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& edge : order[i]->edges)
      if (edge && seen.insert(edge.node.get()).second) order.push_back(edge.node.get());
  return order;
}

bool Engine::computes(const Edge& edge) {
  if (restricted_ || !edge) return (*this)(edge);
  if (reachable_.empty())
    for (Node* node : reachable_from(roots_)) reachable_.insert(node);
  return reachable_.contains(edge.node.get());
}

// Finishes a task whose errors say where its node was recorded.
void Engine::finish_and_explain(Task& task) {
  const RunningNode running(*task.node);
  try {
    finish(task);
  } catch (...) {
    rethrow_with_origin(*task.node);
  }
}

void Engine::run() {
  const GradModeGuard mode(create_);
  const RunningEngine running(this);
  const BackwardObservers observers;
  const auto run_task = [&](Task& task) {
    const BackwardObservers::Scope told(observers, *task.node);
    const NodeStreams::Scope in_stream(streams_, *task.node);
    if (anomaly_mode == Anomaly::Ignore) [[likely]]
      finish(task);
    else
      finish_and_explain(task);
  };
  // Of a backward that is captured. How old the nodes of leaves are depends on whether an earlier
  // graph is alive, which is no matter of the function.
  std::vector<std::unique_ptr<Task>> leaves;
  LeafUses uses;
  if (LeafUses::any_hooks && execution.capture == nullptr) uses = LeafUses(reachable_from(roots_));
  const auto run_leaf = [&](Node& leaf) {
    const auto found = tasks_.find(&leaf);
    if (found == tasks_.end()) return;
    Task& task = *found->second;
    tasks_.erase(found);
    task.ran = true;
    run_task(task);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), recorded_before);
    std::unique_ptr<Task> task = std::move(heap_.back());
    heap_.pop_back();
    if (task->ran) continue;
    const Node& node = *task->node;
    tasks_.erase(task->node.get());
    if (execution.capture != nullptr && node.variable().defined()) [[unlikely]]
      leaves.push_back(std::move(task));
    else
      run_task(*task);
    uses.note(node, run_leaf);
  }
  for (const auto& task : leaves) run_task(*task);
  streams_.join();
  for (size_t i = 0; i < ends_with_.size(); ++i) ends_with_[i]();
}

Tensor Engine::captured(const Edge& input) const {
  const auto kept = captured_.find(input.node.get());
  return kept == captured_.end() ? Tensor() : kept->second[input.index];
}

void Engine::capture(const std::vector<Edge>& inputs, const std::vector<Edge>& outputs,
                     bool accumulate) {
  restricted_ = true;
  for (const Edge& input : inputs) {
    if (!input) fail(accumulate ? "backward" : "grad", ": an input does not require grad");
    if (accumulate && input.node->variable().defined())
      runs_.insert(input.node.get());
    else
      captured_[input.node.get()].resize(input.node->output_count());
  }
  std::vector<Node*> roots;
  for (const Edge& output : outputs)
    if (output) roots.push_back(output.node.get());
  // Ascending order visits producers before consumers.
  std::vector<Node*> order = reachable_from(roots);
  std::sort(order.begin(), order.end(),
            [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
  const auto wanted = [this](const Edge& edge) { return (*this)(edge); };
  for (Node* node : order)
    if (std::any_of(node->edges.begin(), node->edges.end(), wanted)) runs_.insert(node);
}

void Engine::stop_at_inputs(bool sums) {
  sums_ = sums;
  for (const auto& [node, gradients] : captured_) {
    runs_.erase(node);
    ends_[node].resize(gradients.size());
  }
}

std::vector<Edge> edges_of(const std::vector<Tensor>& tensors) {
  std::vector<Edge> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(edge_of(t));
  return out;
}

void run_engine(Engine& engine, const BackwardRequest& request) {
  const std::vector<Tensor>& gradients = request.gradients;
  if (!gradients.empty() && gradients.size() != request.outputs.size())
    fail("backward: ", gradients.size(), " gradients for ", request.outputs.size(), " outputs");
  for (size_t i = 0; i < request.outputs.size(); ++i)
    engine.seed(request.outputs[i], gradients.empty() ? Tensor() : gradients[i]);
  engine.run();
}

std::vector<Tensor> captured_by(const Engine& engine, const BackwardRequest& request) {
  std::vector<Tensor> out;
  for (const Edge& input : request.inputs) out.push_back(engine.captured(input));
  return out;
}

}  // namespace

uint64_t running_backward() { return running_engine ? running_engine->number() : 0; }

bool running_backward_keeps_graph() { return running_engine && running_engine->keeps_graph(); }

void after_backward(std::function<void()> f) {
  if (!running_engine) fail("after_backward: no backward runs");
  running_engine->add_end(std::move(f));
}

bool has_gradient_so_far(const Edge& edge) {
  return running_engine && running_engine->has_so_far(edge);
}

bool is_computed_now(const Edge& edge) { return running_engine && running_engine->computes(edge); }

std::vector<Tensor> accumulate_gradients(const BackwardRequest& request, bool into_inputs) {
  Engine engine(request.retain_graph || request.create_graph, request.create_graph);
  if (into_inputs) engine.capture(request.inputs, request.outputs, true);
  run_engine(engine, request);
  return captured_by(engine, request);
}

std::vector<Tensor> gradients_of_inputs(const BackwardRequest& request) {
  Engine engine(request.retain_graph || request.create_graph, request.create_graph);
  engine.capture(request.inputs, request.outputs, false);
  run_engine(engine, request);
  return captured_by(engine, request);
}

std::vector<ReachingGradients> gradients_reaching(const BackwardRequest& request, bool sums) {
  Engine engine(request.retain_graph || request.create_graph, request.create_graph);
  engine.capture(request.inputs, request.outputs, false);
  engine.stop_at_inputs(sums);
  run_engine(engine, request);
  std::vector<ReachingGradients> out;
  for (const Edge& input : request.inputs) out.push_back(engine.reaching(input));
  return out;
}

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              bool retain_graph, bool create_graph) {
  accumulate_gradients({edges_of(outputs), gradients, {}, retain_graph, create_graph}, false);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  std::vector<Tensor> out = gradients_of_inputs(
      {edges_of(outputs), gradients, edges_of(inputs), retain_graph, create_graph});
  for (size_t i = 0; i < out.size() && !allow_unused; ++i)
    if (!out[i].defined())
      fail("grad: input ", i + 1,
           " was not used to compute the outputs; "
           "pass allow_unused = true to get nil for it");
  return out;
}

}  // namespace moonlet
