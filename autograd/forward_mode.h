// autograd/forward_mode.h: forward-mode differentiation: tensors carry tangents, directional
// derivatives, and a mode computes those of each op's results. A level is one pass; levels inside
// one another give higher derivatives. Below the modes lie tape and vmap, so that tangents may be
// recorded and batched like anything else.
#pragma once

#include "autograd/meta.h"
#include "tensor/runtime/modes.h"

namespace moonlet {

class ForwardMode final : public Mode {
 public:
  ForwardMode();
  ~ForwardMode() override;
  void call(ModeCall& call) override;
  uint64_t level() const { return level_; }
  // While it is suspended, ops have no tangents of it.
  bool is_suspended() const { return suspended_; }
  void suspend(bool on) const { suspended_ = on; }
  // Whether x is a sample of a vmap inside this level: its value may have tangents, not x.
  bool is_for_samples(const Tensor& x) const;

 private:
  bool is_inside_vmap(const BoxedValues& arguments) const;

  const uint64_t level_;
  mutable bool suspended_ = false;
  const int vmaps_;  // how many vmaps it is inside of
};

// Leaves of the modes on the stack those of forward mode alone, for a C++ scope: for ops of the
// system's own that are nobody's business, but whose results have tangents as all others.
class ForwardModesOnly {
 public:
  ForwardModesOnly();
  ~ForwardModesOnly() { execution.modes = before_; }
  ForwardModesOnly(const ForwardModesOnly&) = delete;
  ForwardModesOnly& operator=(const ForwardModesOnly&) = delete;

 private:
  ModeEntry* const before_;
  std::vector<ModeEntry> levels_;
};

// The innermost level of this thread that is not suspended, or 0.
uint64_t forward_level();
// The same, or 0 where one of the tensors is a sample of a vmap inside that level.
uint64_t forward_level_of(const std::vector<Tensor>& tensors);
void suspend_forward_level(uint64_t level, bool suspended);

// A view of x with a tangent of the level. Throws unless the tangent has x's shape, dtype and
// device, or where x has one.
Tensor make_dual(const Tensor& x, const Tensor& tangent, uint64_t level, bool keep = false);
// y, the result of a function that gave its tangent itself; `changed`: it is an argument.
Tensor with_result_tangent(const Tensor& y, const Tensor& tangent, uint64_t level, bool changed);
// A view of x without that tangent.
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

// The tangents of x, which for a view are parts of those of its base; null for none.
std::shared_ptr<const Tangents> tangents_of(const Tensor& x);
// Gives `to`, another handle on the data of `from` or a copy, its tangents, or copies of them.
void copy_tangents(const Tensor& from, const Tensor& to, bool clones);

// Whether derivatives of what is computed now may be asked for: it is recorded, or tangents flow.
inline bool derivatives_wanted() {
  return grad_enabled() || (intercepted() && forward_level() != 0);
}
// The same of x.
bool is_differentiated(const Tensor& x);

// The same at any level of forward mode, or of what x stands for inside vmap.
bool is_differentiated_anywhere(const Tensor& x);

// A tensor to differentiate by: a leaf of its own with x's data and tangents, through which, where
// x requires grad, gradients go on to x.
Tensor differentiation_input(const Tensor& x);
// Whether what x stands for inside vmap requires grad outside of it.
bool values_require_grad(const Tensor& x);
// That number in the form of y; the same for all samples of a vmap where y is.
Tensor filled_as(const Tensor& y, double number);
// The same data, and tangents, without histories.
Tensor stripped(const Tensor& y);
// Whether gradients of `outputs`, or of their tangents, may be asked for by others than `inputs`:
// by what they were computed from beside these, or outside of the vmap that runs.
bool needs_graph(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs);

}  // namespace moonlet
