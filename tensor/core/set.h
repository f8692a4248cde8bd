// tensor/core/set.h: changes in place of what a tensor is a view of: another storage, another
// shape.
#pragma once

#include "tensor/core/typed_storage.h"

namespace moonlet {

// All of them raise the version, so that a tensor saved for a derivative is found changed, and
// throw for a tensor with a history. Sizes and strides are in elements and checked against
// overflow.

// `strides` without the steps that are never taken, which a caller can make so large that a later
// view would overflow: those of an empty tensor and of dimensions of one position.
Dims taken_strides(const Dims& sizes, const Dims& strides);

// Throws when another interpreter may hold this tensor: it could be reading its shape and memory.
void check_geometry_is_own(const Tensor& x, const char* op);

// Gives x the geometry of y, which must lie on its storage. The tape is the caller's affair.
void take_geometry(Tensor& x, const Tensor& y);

// Makes x show these elements of `storage`, which must have x's dtype and device; `offset` counts
// the elements before the first. Throws when one would lie outside the storage. A leaf that
// requires grad must keep its shape, and can only change while nothing is recorded.
Tensor& set_(Tensor& x, const TypedStorage& storage, int64_t offset, const Dims& sizes,
             const Dims& strides);
// Makes x show what y shows: its storage, shape, dtype and device. The tape is the caller's affair
// for a tensor that requires grad; any other is no view afterwards.
void take_memory(Tensor& x, const Tensor& y);
// Gives x another shape over its storage, contiguous from x's first element, unless it has that
// shape already. Elements stay where they are; the storage grows when it is too small (see
// Storage::resize), by zeros. Throws for a tensor that requires grad.
Tensor& resize_(Tensor& x, const Dims& sizes);
// The same to the shape of `other`.
inline Tensor& resize_as_(Tensor& x, const Tensor& other) { return resize_(x, other.sizes()); }

}  // namespace moonlet
