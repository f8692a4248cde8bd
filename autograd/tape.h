// autograd/tape.h: the tape as its users see it: grad mode, requires_grad, backward, grad, hooks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "autograd/sparse_rows.h"
#include "tensor/core/tensor.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

// Whether ops are recorded on this thread. On at first.
inline bool grad_enabled() noexcept { return execution.grad_mode; }
inline void set_grad_enabled(bool on) noexcept { execution.grad_mode = on; }

// Sets the mode for a C++ scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradModeGuard() { set_grad_enabled(before_); }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};

// `const NoGrad no_grad;`: nothing is recorded in the scope.
class NoGrad : public GradModeGuard {
 public:
  NoGrad() : GradModeGuard(false) {}
};

// Throws for dtypes that are not floating or complex, and for turning it off on a non-leaf.
void set_requires_grad(Tensor& t, bool on);
bool is_leaf(const Tensor& t);
// A gradient as it is kept: a tensor, rows of one (of a leaf that sparse embeddings alone used), or
// neither.
struct Gradient {
  Tensor dense;
  std::shared_ptr<SharedRows> rows;
};
Gradient gradient_of(const Tensor& t);
// The gradient as a tensor, one of rows as a copy, or undefined.
Tensor grad_of(const Tensor& t);
// Sets or (undefined) clears it. Throws unless shape, dtype and device are t's.
void set_grad(Tensor& t, const Tensor& grad);
// The same of rows, for a leaf.
void set_sparse_grad(Tensor& t, const std::shared_ptr<SharedRows>& rows);
// "MulBackward", or "" for a leaf. "Invalid" for a view made without recording whose base a
// recorded op changed since: to use it in one is an error.
std::string grad_fn_name(const Tensor& t);
// The same data without history; it shares memory with t.
Tensor detach(const Tensor& t);
// Cuts t off its history in place. Throws on a view.
void detach_(Tensor& t);
// Whether t is a view that the tape knows of.
bool is_view(const Tensor& t);
// Whether more than this one handle holds what t's hooks hang on, so that a backward may still
// reach them once it is dropped. May be true without need, for a holder that only they keep alive.
bool hooks_held_elsewhere(const Tensor& t);

// Keeps the gradient of a non-leaf in its `grad` at each later backward, added to what is there. It
// follows the tensor when a change in place gives it a new history.
void retain_grad(Tensor& t);
bool retains_grad(const Tensor& t);

// Takes a hook away; may be copied, used twice, and used after the tensor is gone.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<HookList> list, int64_t id) : list_(std::move(list)), id_(id) {}
  void remove() {
    if (const auto list = list_.lock()) list->remove(id_);
  }

 private:
  std::weak_ptr<HookList> list_;
  int64_t id_ = 0;
};

// Calls `hook` with the gradient of t's present value at each backward that computes it, in the
// order of registration. When t is changed in place later, hooks stay with the value they saw.
HookHandle register_hook(Tensor& t, Hook hook);
// Calls `hook` with leaf t each time a backward has added to its gradient. Throws on a non-leaf.
HookHandle register_post_accumulate_grad_hook(Tensor& t, PostAccumulateHook hook);

// Accumulates the gradients of `outputs` into all leaves that require grad, each as soon as it is
// whole. A missing entry of `gradients` stands for 1, which only a single-element output allows.
// Buffers saved by the graph are freed unless `retain_graph`; `create_graph` records the backward
// itself.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              bool retain_graph = false, bool create_graph = false);
// The same of one output with a single element, as a loss has.
inline void backward(const Tensor& output) { backward({output}, {}); }
// The gradients of `outputs` with respect to `inputs`, without touching any `grad`; only what leads
// to them is computed, and freed. An input the outputs do not depend on is an error, or undefined
// with `allow_unused`.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

}  // namespace moonlet
