// autograd/meta.h: what the tape keeps beside a tensor: its gradient, its history, and for a view
// how it is made from its base.
//
// Invariants of a view:
// - It keeps its base alive, never the other way round. The base is no view itself: a view of a
//   view has the base of that. The exception is a base that was restrided in place into a view of
//   what it was before, its hidden base; root_of gives that.
// - Replaying the recipe on the base gives the view's elements, as long as the base has not moved
//   since (`base_moves`). After that view and base are parted: the recipe is not replayed any more,
//   and the view's own history stays what it is.
// - A recipe applies to one geometry of the base. One that was restrided in place keeps those it
//   had (PastGeometries), and `geometry` says which.
// - `version` and `base_sequence` are those of the moment when the view's own history was made.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "autograd/node.h"
#include "autograd/sparse_rows.h"
#include "autograd/tape.h"

namespace moonlet {

// How a view is made again from its base: by the view op that made it, after the steps that made
// what that was called on. Kept in place, as most views have one small step; a view of a view keeps
// a copy of the other's recipe.
struct ViewRecipe {
  using Step = std::function<Tensor(const Tensor&)>;

  ViewRecipe() = default;
  explicit ViewRecipe(Step last) : step(std::move(last)) {}
  ViewRecipe(const ViewRecipe&) = default;
  ViewRecipe(ViewRecipe&&) = default;
  ViewRecipe& operator=(const ViewRecipe&) = default;
  ViewRecipe& operator=(ViewRecipe&&) = default;
  ~ViewRecipe() {
    if (before) release_chain();
  }
  // The view that this makes of `base`.
  Tensor replay(const Tensor& base) const;

  Step step;
  std::shared_ptr<const ViewRecipe> before;  // null: `step` applies to the base itself

 private:
  void release_chain() noexcept;
};

// Where the elements of a tensor lie in its storage.
struct Geometry {
  Dims sizes, strides;
  int64_t offset;
  explicit Geometry(const Tensor& t) : sizes(t.sizes()), strides(t.strides()), offset(t.offset()) {}
  bool operator==(const Geometry& other) const {
    return sizes == other.sizes && strides == other.strides && offset == other.offset;
  }
};

// The geometries that a base had while there were views of it, which recipes refer to.
struct PastGeometries {
  std::vector<Geometry, memory::SmallBlockAllocator<Geometry>> all;
  uint32_t present = 0;  // which of them it has
};

// The tangents of a tensor, each of one level of forward mode (autograd/forward_mode.h).
struct Tangents {
  using Each = std::pair<uint64_t, Tensor>;
  std::vector<Each, memory::SmallBlockAllocator<Each>> all;
};

// The record of a view: what it is a view of, how it is made from it, and what it saw of the base
// when its own history was made.
struct ViewRecord {
  Tensor base;  // no view itself, unless it was restrided since (see `root_of`)
  ViewRecipe recipe;
  uint32_t version = 0;        // of the storage
  uint16_t base_moves = 0;     // another number since: the base lies elsewhere, and they are parted
  uint32_t geometry = 0;       // which of the base's the recipe is for
  uint64_t base_sequence = 0;  // the number of the base's producer; 0 for none
  bool no_grad = false;        // made while recording was off: a constant to the tape
  // Returned by a custom function: then no_grad too, but with the history of the function.
  bool of_function = false;
  // Given another geometry in place: the last step of the recipe says which.
  bool restrided = false;
  // The base is what this tensor was before it was restrided; nobody else sees it.
  bool hidden_base = false;
};

// The tensor that the recipe applies to, which is no view.
const Tensor& root_of(const ViewRecord& view);

struct AutogradMeta final : AutogradMetaInterface {
  static void* operator new(size_t) { return memory::FreeListOf<AutogradMeta>::get(); }
  static void operator delete(void* meta) { memory::FreeListOf<AutogradMeta>::put(meta); }

  bool view_requires_grad() const noexcept override;

  // Of a tensor that a recorded op made.
  NodeRef grad_fn;
  int output = 0;  // which output of grad_fn it is
  // Of a view; `base` is set then too.
  ViewRecord view;
  // Of a base that was restrided.
  std::unique_ptr<PastGeometries> past;
  // The gradient; of a non-leaf after retain_grad, shared with its producer. Of a leaf it may be
  // rows instead.
  Tensor grad;
  std::shared_ptr<SharedRows> rows;
  std::shared_ptr<Tensor> retained;
  std::shared_ptr<const Tangents> tangents;  // null for most
  // Of a leaf. `lock` guards the gradient and the accumulate node, which graphs hold and the leaf
  // only points to.
  std::atomic<uint8_t> lock{0};
  Node* accumulate = nullptr;
  std::shared_ptr<HookList> hooks;
};

// Holds a leaf's lock for a scope: threads may share a leaf.
class LeafLock {
 public:
  explicit LeafLock(AutogradMeta& meta) : meta_(meta) {
    while (meta_.lock.exchange(1, std::memory_order_acquire) != 0)
      meta_.lock.wait(1, std::memory_order_relaxed);
  }
  ~LeafLock() {
    meta_.lock.store(0, std::memory_order_release);
    meta_.lock.notify_one();
  }
  LeafLock(const LeafLock&) = delete;
  LeafLock& operator=(const LeafLock&) = delete;

 private:
  AutogradMeta& meta_;
};

// The tape's part of a tensor, or null.
inline AutogradMeta* meta_of(const Tensor& t) {
  return static_cast<AutogradMeta*>(t.impl()->autograd);
}
// The same, made when missing.
AutogradMeta& ensure_meta(const Tensor& t);

// The node that adds gradients to leaf t; made when no graph holds one.
NodeRef accumulate_node(const Tensor& t);
// Another number for each hook.
int64_t new_hook_id();
// The hooks of leaf t, shared by all its accumulate nodes.
std::shared_ptr<HookList> leaf_hooks(const Tensor& t);

// Makes `y` output `output` of `node`, and the node keep y's geometry.
void set_history(const Tensor& y, const NodeRef& node, int output = 0);
// A new handle on t's data without history, but with its tangents.
Tensor without_history(const Tensor& t);
// A new handle on t's data, with its tangents, whose history is that output of `node`.
Tensor with_history(const Tensor& t, const NodeRef& node, int output);

}  // namespace moonlet
