// autograd/program/leaf_gradients.cpp: gradients of leaves as inputs and outputs of a graph.
#include "autograd/program/leaf_gradients.h"

#include "autograd/meta.h"
#include "autograd/node.h"
#include "tensor/core/error.h"

namespace moonlet::program {

namespace {

bool is_used(const Graph& graph, ValueId value) {
  const BufferId buffer = graph.values[value].buffer;
  bool used = false;
  for (const Node& node : graph.nodes)
    each_argument(node, [&](ValueId id) { used = used || graph.values[id].buffer == buffer; });
  for (const ValueId id : graph.outputs) used = used || graph.values[id].buffer == buffer;
  return used;
}

size_t hooks_of(const Tensor& leaf) {
  const AutogradMeta* meta = meta_of(leaf);
  return meta != nullptr && meta->hooks ? meta->hooks->entries().size() : 0;
}

// Whether the leaf alone holds that gradient, of which the caller has a handle, and it has memory
// of its own like a new one.
bool is_own(const Tensor& gradient) {
  const Storage& storage = gradient.storage();
  return gradient.impl()->references.load() == 2 && gradient.impl()->autograd == nullptr &&
         storage.sole_owner() && !storage.is_foreign() && !storage.is_mapped() &&
         !storage.is_read_only() && !storage.has_other_writers() &&
         storage.is_inference() == execution.inference_mode && gradient.offset() == 0 &&
         is_dense(gradient.sizes(), gradient.strides()) &&
         storage.bytes() == static_cast<size_t>(gradient.numel()) * size_of(gradient.dtype());
}

}  // namespace

bool LeafGradientChange::operator==(const LeafGradientChange& other) const {
  const bool defined_alike = was_defined == other.was_defined || (!was_read && input == kNone);
  return leaf.is_same(other.leaf) && was_read == other.was_read && defined_alike &&
         input == other.input && output == other.output && kept == other.kept &&
         hooks == other.hooks;
}

void note_gradient_of(const Tensor& leaf, const Gradient& now, bool is_read) {
  Capture& capture = *execution.capture;
  if (now.rows) return capture.stop("a gradient is sparse");
  capture.note_gradient(leaf, now.dense, is_read);
}

std::vector<LeafGradientChange> finish_leaf_gradients(Capture& capture) {
  std::vector<LeafGradientChange> changes;
  for (const Capture::LeafGradient& noted : capture.leaf_gradients()) {
    // A leaf that the function made itself, and its gradient, end with it.
    const Graph& graph = capture.graph();
    if (capture.knows(noted.leaf)) {
      const Value& leaf = graph.values[capture.value_of(noted.leaf)];
      const Buffer::Kind kind = graph.buffers[leaf.buffer].kind;
      if (kind == Buffer::Kind::Internal) continue;
      if (kind == Buffer::Kind::Input) capture.stop("it uses the gradient of an argument");
    }
    const Gradient after = gradient_of(noted.leaf);
    if (after.rows) capture.stop("a gradient is sparse");
    LeafGradientChange change{noted.leaf, noted.was_read, noted.before.defined()};
    change.hooks = hooks_of(noted.leaf);
    change.kept =
        after.dense.defined() && noted.before.defined() && after.dense.is_same(noted.before);
    if (after.dense.defined() && !change.kept) {
      change.output = static_cast<int>(graph.outputs.size());
      capture.add_output(after.dense);
    }
    changes.push_back(std::move(change));
  }
  size_t i = 0;
  for (const Capture::LeafGradient& noted : capture.leaf_gradients()) {
    if (i == changes.size() || !changes[i].leaf.is_same(noted.leaf)) continue;
    LeafGradientChange& change = changes[i++];
    if (noted.value == kNone || !is_used(capture.graph(), noted.value)) continue;
    const Graph& graph = capture.graph();
    const Buffer::Kind kind = graph.buffers[graph.values[noted.value].buffer].kind;
    if (kind != Buffer::Kind::Input) continue;  // known before as a parameter
    change.input = static_cast<int>(graph.inputs.size());
    capture.add_input(noted.value);
  }
  return changes;
}

bool leaf_gradients_fit(const std::vector<LeafGradientChange>& changes, const Graph& graph) {
  for (const LeafGradientChange& change : changes) {
    if (hooks_of(change.leaf) != change.hooks) return false;
    if (!change.was_read && change.input == kNone) continue;
    const Gradient now = gradient_of(change.leaf);
    if (now.rows || now.dense.defined() != change.was_defined) return false;
    if (change.input == kNone) continue;
    const Value& expected = graph.values[graph.inputs[change.input]];
    if (now.dense.dtype() != expected.dtype || !(now.dense.sizes() == expected.sizes) ||
        !(now.dense.strides() == expected.strides))
      return false;
  }
  return true;
}

void add_leaf_gradients(const std::vector<LeafGradientChange>& changes,
                        std::vector<Tensor>& inputs) {
  for (const LeafGradientChange& change : changes)
    if (change.input != kNone) inputs.push_back(gradient_of(change.leaf).dense);
}

void lend_leaf_gradients(const std::vector<LeafGradientChange>& changes, const Plan& plan,
                         std::vector<Tensor>& outputs) {
  const Graph& graph = plan.graph();
  outputs.resize(graph.outputs.size());
  for (const LeafGradientChange& change : changes) {
    if (change.kept || change.output == kNone || change.input != kNone) continue;
    const Value& made = graph.values[graph.outputs[change.output]];
    if (plan.allocation(made.buffer).kind != Allocation::Kind::Output) continue;
    Tensor old = gradient_of(change.leaf).dense;
    if (!old.defined() || !is_own(old)) continue;
    Tensor leaf = change.leaf;
    set_grad(leaf, Tensor());
    outputs[change.output] = std::move(old);
  }
}

void set_leaf_gradients(const std::vector<LeafGradientChange>& changes,
                        const std::vector<Tensor>& outputs) {
  for (const LeafGradientChange& change : changes) {
    if (change.kept) continue;
    Tensor leaf = change.leaf;
    set_grad(leaf, change.output == kNone ? Tensor() : outputs[change.output]);
  }
}

}  // namespace moonlet::program
