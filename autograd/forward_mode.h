// autograd/forward_mode.h: forward-mode differentiation: tensors carry tangents, directional
// derivatives, and a mode computes those of each op's results. A level is one pass; levels inside
// one another give higher derivatives. Below the modes lie tape and vmap, so that tangents may be
// recorded and batched like anything else.
#pragma once

#include "autograd/meta.h"
#include "tensor/modes.h"

namespace moonlet {

class ForwardMode final : public Mode {
 public:
  ForwardMode();
  void call(ModeCall& call) override;
  uint64_t level() const { return level_; }

 private:
  bool is_inside_vmap(const BoxedValues& arguments) const;

  const uint64_t level_;
  const int vmaps_;  // how many vmaps it is inside of
};

// The innermost level of this thread, or 0.
uint64_t forward_level();

// x with a tangent of the level: the same data and history in a new handle. Throws unless the
// tangent has x's shape, dtype and device.
Tensor make_dual(const Tensor& x, const Tensor& tangent, uint64_t level, bool keep = false);
// A new handle on x without that tangent.
Tensor without_tangent(const Tensor& x, uint64_t level);
// The tangent of that level, or undefined: then it is zero.
Tensor tangent_of(const Tensor& x, uint64_t level);

// A pass of forward mode for a C++ scope, inside of those that run: tensors of `make_dual` carry a
// direction, ops pass it on, and `unpack` gives the derivative along it.
class DualLevel {
 public:
  DualLevel() : scope_(mode_) {}

  // What a tensor is by itself, and its tangent; undefined stands for zero.
  struct Dual {
    Tensor primal, tangent;
  };
  Tensor make_dual(const Tensor& x, const Tensor& tangent) const {
    return moonlet::make_dual(x, tangent, mode_.level());
  }
  Dual unpack(const Tensor& x) const {
    return {without_tangent(x, mode_.level()), tangent_of(x, mode_.level())};
  }

 private:
  ForwardMode mode_;
  const ModeScope scope_;
};

// Whether derivatives of what is computed now may be asked for: it is recorded, or tangents flow.
inline bool derivatives_wanted() {
  return grad_enabled() || (intercepted() && forward_level() != 0);
}
// The same of x.
bool is_differentiated(const Tensor& x);

// A tensor to differentiate by: a leaf of its own with x's data and tangents, through which, where
// x requires grad, gradients go on to x.
Tensor differentiation_input(const Tensor& x);
// Whether gradients of `outputs` may be asked for by others than `inputs`: by what they were
// computed from beside these, or outside of the vmap that runs.
bool needs_graph(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs);

}  // namespace moonlet
