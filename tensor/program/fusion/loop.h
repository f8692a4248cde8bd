// tensor/program/fusion/loop.h: a loop: pointwise ops that run together in one pass over one
// shape, so that what one of them gives the next never reaches memory. Grouping makes it of nodes
// (group.h); the block executor (block_executor.h) and compilers of machine code run it.
//
// For each index of the shape, in any order: the loads read one element each, the ops compute in
// their order, the stores write. A store may have memory in common with a load only where both are
// the same element at the same index; loads come first.
#pragma once

#include <string>
#include <vector>

#include "tensor/pointwise/run.h"

namespace moonlet::program {

struct Loop {
  static constexpr int kMaxOps = 64;
  // Loads and stores.
  static constexpr int kMaxOperands = 16;

  // Elements of a buffer, one at each index.
  struct Memory {
    int32_t slot = 0;  // which of the addresses of a run
    DType dtype = DType::Float32;
    int64_t offset = 0;              // of index 0, in bytes
    int64_t strides[kMaxDims] = {};  // in bytes; 0 where it is broadcast
    bool operator==(const Memory&) const = default;
  };

  struct Source {
    enum Kind : uint8_t { Load, Number, Op };
    Kind kind = Load;
    int16_t index = 0;  // into loads, numbers or ops
    bool operator==(const Source&) const = default;
  };

  // An op on one element. Each input converts from its own dtype to `compute`, the functor computes
  // in that, its result (bool where the row's is one) converts to `dtype`; so a float16 op rounds
  // to float16 before the next one reads it. Numbers convert to `compute` at once.
  struct Op {
    const PointwiseOp* op = nullptr;  // null: the input itself, converted from its dtype to `dtype`
    int inputs = 0;
    Source in[kMaxPointwiseInputs];
    int first_param = 0, param_count = 0;  // the op's scalar arguments, in `params`
    DType compute = DType::Float32;        // PointwisePlan::compute
    DType dtype = DType::Float32;
  };

  struct Store {
    int op = 0;
    Memory to;  // its dtype is the op's
  };

  int ndim = 0;               // at least 1
  int64_t sizes[kMaxDims]{};  // dimension 0 is the innermost
  int64_t numel = 0;          // 0: nothing runs
  Device device;
  std::vector<Memory> loads;
  std::vector<Scalar> numbers, params;
  std::vector<Op> ops;
  std::vector<Store> stores;

  DType dtype_of(Source s) const {
    return s.kind == Source::Load ? loads[s.index].dtype
           : s.kind == Source::Op ? ops[s.index].dtype
                                  : numbers[s.index].default_dtype();
  }
};

// A line per load, op and store, for people and for tests:
//   loop (4, 3) float32
//   a = load 0 : float32 (4, 16)
//   t0 = add(a, 1) : float32
//   store t0 -> 1 : float32 (4, 16)
std::string to_string(const Loop& loop);

}  // namespace moonlet::program
