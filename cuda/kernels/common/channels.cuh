// cuda/kernels/common/channels.cuh: images whose channels lie side by side (channels_last).
#pragma once

#include "cuda/kernels/common/elements.cuh"
#include "cuda/runtime/device.h"
#include "tensor/core/layout.h"

namespace moonlet::cuda {

inline bool channels_are_last(const Tensor& x) {
  return !x.is_contiguous() &&
         (is_contiguous(x.sizes(), x.strides(), MemoryFormat::ChannelsLast) ||
          is_contiguous(x.sizes(), x.strides(), MemoryFormat::ChannelsLast3d));
}

// The format with the channels last, of images or volumes.
inline MemoryFormat last_format(const Tensor& t) {
  return t.dim() == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
}

// t, of any sizes of that rank, with its elements as they lie in `like`, which is contiguous or has
// its channels last.
inline Tensor laid_as(const Call& call, const Tensor& like, const Tensor& t) {
  if (like.is_contiguous()) return contiguous(t);
  const MemoryFormat last = last_format(like);
  if (is_contiguous(t.sizes(), t.strides(), last)) return t;
  Tensor out = empty_strided(t.sizes(), format_strides(last, t.sizes(), call.op()), options_of(t),
                             call.op());
  copy_back(out, t);
  return out;
}

}  // namespace moonlet::cuda
