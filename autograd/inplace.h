// autograd/inplace.h: the nodes that views and in-place changes need beside the generated ones.
#pragma once

#include "autograd/node.h"

namespace moonlet {

// The gradient passes unchanged to `edge`.
NodeRef make_identity_node(const Edge& edge);
// The history of view `t` after `base` was changed in place: read by strides from the base.
NodeRef make_view_node(const Tensor& t, const Tensor& base);
// The history of `base` after view `x` of it was changed in place by `change`, whose edge 0 is the
// view's old value: the gradient of the slice goes through `change`, the rest passes.
NodeRef make_copy_slices(const Tensor& x, const Tensor& base, const NodeRef& change);

}  // namespace moonlet
