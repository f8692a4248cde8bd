// tensor/program/jit/body.h: what one function of machine code computes, for emitters of all
// processors.
#pragma once

#include <vector>

#include "tensor/core/dtype.h"
#include "tensor/program/jit/op_table.h"

namespace moonlet::program::jit {

// Of a load or a store.
struct Operand {
  DType dtype;
  int64_t strides[2];  // in bytes; of the innermost dimension first
  int node = -1;       // of a store: what is stored
};

// What one function computes.
struct Body {
  Trace trace;
  std::vector<Operand> loads, stores;
  Target target = Target::Avx512;
  bool long_rows = false;  // rows of many vectors, of which two may be computed side by side
  // Of one vector: as many as fit of the largest.
  int lanes() const;
};

// Of the addresses of the loads and, behind those, the stores; elements of both dimensions, at
// least 1 of each.
using Function = void (*)(char* const* addresses, int64_t columns, int64_t rows);

}  // namespace moonlet::program::jit
