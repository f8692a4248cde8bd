// tensor/cpu/pointwise/pointwise.h: the CPU's pointwise engine: walks a plan in pieces that fit the
// first cache, converts what is not dense in the compute dtype, and calls an op's loop on each
// piece.
#pragma once

#include <cstddef>

#include "tensor/pointwise/plan.h"

namespace moonlet::cpu {

// n elements of the compute dtype from each input to out; `out` may be an input. Every input is
// dense. The op's scalar parameters come unconverted.
using PointwiseLoop = void (*)(const void* const* in, void* out, size_t n, const Scalar* params);

// An op's loops, null for the compute dtypes its row does not claim. Some have ones for 16-bit
// floats, which are converted to float32 and back otherwise; to the last two of these `in` ends
// with a number, which is a float. Those of complex numbers of parts are given real inputs. Those
// of small integers are for tensors that all have the dtype; they take bools as bytes of 1 and 0
// where `takes_bools` says so. `gives_truth`: their results are 1 and 0, whatever dtype these go
// to.
struct PointwiseLoops {
  PointwiseLoop f32, f64, i64, c64, c128, f16, bf16, f16_number, bf16_number, c64_of_parts,
      c128_of_parts, i8, u8, i16, i32;
  bool takes_bools, gives_truth;
};

// Runs a plan; splits large ones between threads. Each element's result is the same for any
// number of threads. Throws on integer division by zero.
void run_loops(const PointwisePlan& plan, const PointwiseLoops& loops);

}  // namespace moonlet::cpu
