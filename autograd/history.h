// autograd/history.h: histories of views and of tensors changed in place.
//
// Invariants (of the version they rest on: tensor/core/storage.h; of what a view keeps:
// autograd/meta.h):
// - A recorded change in place changes the history of the base alone, through whichever view it is
//   made (rebase_history). Other views are not told; there is no list of them.
// - The history that a view has is right while its version is that of the storage. When it is not,
//   and the base requires grad, grad_fn_of makes it again by replaying the recipe on the base. So
//   ask grad_fn_of, not AutogradMeta::grad_fn, for the producer of a tensor that may be a view.
// - A new history is a new node, so that hooks stay with the value they saw.
// - A view made without recording is a constant, and an error once a recorded change has reached
//   its memory. A recorded change through it is refused.
// - A leaf that requires grad, or a view of one, changes only while nothing is recorded.
#pragma once

#include <utility>

#include "autograd/meta.h"

namespace moonlet {

// The node that produced t, brought up to date when t is a view; null for a leaf. Throws for a view
// made without recording whose base a recorded op changed since.
NodeRef grad_fn_of(const Tensor& t);

// Whether t is such a view: it has no history that could be told.
bool is_unreachable_view(const Tensor& t);

// Makes x show what y shows: its storage, shape, dtype and device. x keeps its position on the
// tape: a leaf that requires grad stays one and keeps its gradient, and the result of a recorded op
// must keep its shape, dtype and device. Throws for a view that requires grad.
void set_data(Tensor& x, const Tensor& y);

// Makes view y a tensor of its own: for a result that is a view of a temporary nobody else has.
void own_memory(const Tensor& y);

namespace detail {
void note_view(const Tensor& y, const Tensor& x, ViewRecipe::Step step);
}

// Notes that y is a view of x made by `step(x)`, so that in-place changes through either reach both
// histories. Memory seen as numbers of another kind has no derivative.
template <class F>
void note_view(const Tensor& y, const Tensor& x, F step) {
  if (is_differentiable(y.dtype()) && is_differentiable(x.dtype()))
    detail::note_view(y, x, std::move(step));
}

// Before an in-place op that is recorded: throws when x is a leaf that requires grad, a view of
// one, or a view made without recording.
void check_inplace(const Tensor& x, const char* op);
// Before one that is not, since nothing it reads requires grad: throws when x is a view made
// without recording of a tensor that requires grad, whose history would not see the change.
void check_unrecorded_view(const Tensor& x, const char* op);
inline void check_unrecorded(const Tensor& x, const char* op) {
  if (grad_enabled() && x.impl()->autograd && x.impl()->autograd->base) [[unlikely]]
    check_unrecorded_view(x, op);
}
// Throws for an op without a derivative that would change x in place while x has a history.
void check_inplace_without_derivative(const Tensor& x, const char* op);
// After an in-place op recorded as `change`, a ChangeNode whose edge number `edge` is to x's old
// history: makes it the history of x, or, when x is a view, of the part of its base.
void rebase_history(const Tensor& x, const NodeRef& change, int edge = 0);
// Whether that is the history of a base.
bool is_part_of_base(const Tensor& x);

namespace detail {
bool begin_restride(const Tensor& x, const char* op);
Tensor before_restride(const Tensor& x);
Tensor& finish_restride(Tensor& x, const Tensor& before, const Tensor& y, const char* op);
}  // namespace detail

// The in-place form of a view op: x gets the geometry that `view(x)` has. No element changes, so
// the history of a tensor that has one goes on through the view's derivative whether or not ops are
// recorded, and views that others hold stay where they are. It counts as a change: it raises the
// version, and throws where a recorded change would. A leaf that requires grad may only change
// while nothing is recorded; graphs that have used it then fail, as their gradients have its old
// shape.
template <class F>
Tensor& restride_(Tensor& x, const char* op, F view) {
  const GradModeGuard record(detail::begin_restride(x, op));
  const Tensor before = detail::before_restride(x);
  return detail::finish_restride(x, before, view(before), op);
}

}  // namespace moonlet
