// autograd/dual_tensor.h: what forward mode does to the tangents of a tensor (see
// autograd/forward_mode.h for what others may).
#pragma once

#include "autograd/forward_mode.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

// Gives x this tangent of the level. Nothing else of x is told.
void set_tangent(const Tensor& x, uint64_t level, const Tensor& tangent);
// Gives it to what the producer of x saved of its result, which was before x had it.
void tell_producer(const Tensor& x);
// The node of the change in place of a part, where `node` is the history of the whole after it
// (autograd/history.cpp); else null.
Node* change_of_part(Node& node);
// The tangent as it lies in memory where x is dense: as x does. Views may ask for that.
Tensor laid_out_as(const Tensor& x, const Tensor& tangent);
// Whether the level runs, and gives tangents to x and not to the values of samples that x is.
bool has_tangents_of(const Tensor& x, uint64_t level);
// x as a tensor of that vmap, where there is one, so that what is attached to it is its own.
Tensor lifted(const Tensor& x, const BatchLevelRef& level);
// x was changed in place, and its tangent is `next` now; undefined for zero.
void change_tangent(const Tensor& x, uint64_t level, const Tensor& next);

}  // namespace moonlet
