// tensor/core/memory_overlap.h: which tensors share memory, answered on the bytes they reach: two
// storages may cover the same memory when a host handed it in twice.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet {

// The bytes from the first element to the end of the last, as [first, last).
struct ByteSpan {
  const char* first;
  const char* last;
};
inline ByteSpan byte_span(const Tensor& x) {
  const char* first = x.raw();
  int64_t elements = x.numel();
  if (!x.is_contiguous() && elements > 0) {
    elements = 1;
    for (int i = 0; i < x.dim(); ++i) elements += (x.size(i) - 1) * x.stride(i);
  }
  const auto bytes = static_cast<uintptr_t>(elements) * size_of(x.dtype());
  // By numbers: tensors without memory, as those of a batch, begin at null.
  return {first, reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(first) + bytes)};
}

// Whether the spans of two tensors cross. Between strided tensors no element need lie in both.
inline bool may_overlap(const Tensor& a, const Tensor& b) {
  const ByteSpan s = byte_span(a), t = byte_span(b);
  return s.first < t.last && t.first < s.last && a.device() == b.device() && a.numel() > 0 &&
         b.numel() > 0;
}
// Whether a byte belongs to elements of both. Exact; walks both when they are strided.
bool overlap(const Tensor& a, const Tensor& b);
// Whether both are the very same elements in the same order.
bool same_elements(const Tensor& a, const Tensor& b);
// Whether two elements of that layout lie in one position. Exact; walks them all when the strides
// do not tell.
bool overlaps_itself(const Dims& sizes, const Dims& strides);
inline bool overlaps_itself(const Tensor& x) {
  return !x.is_contiguous() && overlaps_itself(x.sizes(), x.strides());
}

// Whether a write through `out`, element by element in order, could change what a later read
// through `in` sees.
inline bool needs_copy_before_writing(const Tensor& out, const Tensor& in) {
  return !in.is_same(out) && may_overlap(out, in) && !same_elements(out, in);
}

}  // namespace moonlet
