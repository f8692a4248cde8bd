// autograd/tape.h: the tape as its users see it: grad mode, requires_grad, backward, grad, hooks.
#pragma once

#include <string>
#include <vector>

#include "autograd/node.h"
#include "tensor/execution.h"
#include "tensor/tensor.h"

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

// Throws for dtypes that are not floating or complex, and for turning it off on a non-leaf.
void set_requires_grad(Tensor& t, bool on);
bool is_leaf(const Tensor& t);
// The gradient, or undefined.
Tensor grad_of(const Tensor& t);
// Sets or (undefined) clears it. Throws unless shape, dtype and device are t's.
void set_grad(Tensor& t, const Tensor& grad);
// "MulBackward", or "" for a leaf.
std::string grad_fn_name(const Tensor& t);
// The same data without history; it shares memory with t.
Tensor detach(const Tensor& t);
// Cuts t off its history in place. Throws on a view.
void detach_(Tensor& t);
// Keeps the gradient of a non-leaf in its `grad` at the next backward.
void retain_grad(Tensor& t);
// Calls `hook` with t's gradient at each backward; the id removes it.
int64_t register_hook(Tensor& t, Hook hook);
void remove_hook(Tensor& t, int64_t id);
// Whether more than this one handle holds what t's hooks hang on, so that a backward may still
// reach them once it is dropped. May be true without need, for a holder that only they keep alive.
bool hooks_held_elsewhere(const Tensor& t);

// Accumulates the gradients of `outputs` into all leaves that require grad. A missing entry of
// `gradients` stands for 1, which only a single-element output allows. Buffers saved by the graph
// are freed unless `retain_graph`; `create_graph` records the backward itself.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              bool retain_graph = false, bool create_graph = false);
// The gradients of `outputs` with respect to `inputs`, without touching any `grad`. An input the
// outputs do not depend on is an error, or undefined with `allow_unused`.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

}  // namespace moonlet
