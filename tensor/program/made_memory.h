// tensor/program/made_memory.h: for code that makes a tensor which ops then fill in place.
#pragma once

#include "tensor/core/tensor.h"
#include "tensor/runtime/execution.h"

namespace moonlet::program {

void note_made_memory(const Tensor& t);

// `t`, of new memory: to the capture of this thread, if there is one, a value of the graph's own
// that no node makes, and not a tensor from outside.
inline Tensor made_memory(Tensor t) {
  if (execution.capture != nullptr) [[unlikely]]
    note_made_memory(t);
  return t;
}

}  // namespace moonlet::program
