// tensor/program/jit/op_table.h: which rows become machine code, and how their functors are traced.
#pragma once

#include <span>

#include "tensor/core/dtype.h"
#include "tensor/program/jit/trace.h"

namespace moonlet::program::jit {

enum class Target : uint8_t { Avx2, Avx512, Neon };

struct TracedOp {
  // Runs the functor on nodes of `tracing`, the inputs before the parameters; gives the result's.
  using Run = int (*)(const int* arguments);
  const char* name;
  int inputs, params;
  Run float32, float64, int64;  // null where the row has none, or what it does cannot be traced
  Run for_compute(DType compute) const {
    return compute == DType::Float32   ? float32
           : compute == DType::Float64 ? float64
           : compute == DType::Int64   ? int64
                                       : nullptr;
  }
};

// Of the targets of the processor that this is compiled for.
std::span<const TracedOp> avx2_ops();
std::span<const TracedOp> avx512_ops();
std::span<const TracedOp> neon_ops();
std::span<const TracedOp> ops_of(Target target);

// That of a row, or null.
const TracedOp* find_traced_op(Target target, const char* name);

}  // namespace moonlet::program::jit
