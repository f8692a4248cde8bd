// tests/embed/own_tensor/moonlet.h: what a host wraps around Moonlet, in a header of that name.
#pragma once
#include <moonlet/moonlet.h>
#include <moonlet/ops.h>

#include "tensor/tensor.h"

namespace host {

inline Tensor described(const moonlet::Tensor& t) { return {static_cast<int>(t.dim())}; }

}  // namespace host
