// cuda/kernels/common/cells.cuh: the dtypes that kernels of packs are compiled for, by the width of
// an element and the type that it computes in.
#pragma once

#include "cuda/kernels/common/packs.cuh"

namespace moonlet::cuda {

// Of each dtype that such kernels are compiled for: its width and the type that it computes in.
template <class C, int kBytes>
struct Cell {
  using Type = C;
  static constexpr int bytes = kBytes;
};

// Calls f.template operator()<Cell>() for a dtype that has one; false for the others.
template <class F>
bool visit_cell(DType t, F&& f) {
  switch (t) {
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8: return f.template operator()<Cell<int64_t, 1>>();
    case DType::Int32: return f.template operator()<Cell<int64_t, 4>>();
    case DType::Int64: return f.template operator()<Cell<int64_t, 8>>();
    case DType::Float16:
    case DType::BFloat16: return f.template operator()<Cell<float, 2>>();
    case DType::Float32: return f.template operator()<Cell<float, 4>>();
    case DType::Float64: return f.template operator()<Cell<double, 8>>();
    default: return false;
  }
}

}  // namespace moonlet::cuda
