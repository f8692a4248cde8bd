// interp/distributed/reduce.h: the elementwise functions of reductions across ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

// out[i] = a[i] with b[i]; out may be a or b.
using Combine = void (*)(void* out, const void* a, const void* b, size_t count);
// Throws for what the dtype has not, such as the smaller of two complex numbers.
Combine combine_of(Reduction reduction, DType dtype);

size_t bytes_of(DType dtype);
// Whether elements are added up in float32, and rounded once.
bool is_narrow(DType dtype);

// Reduces rows of `count` elements, in their order, into `out`, which may be one of them.
void reduce_rows(Reduction reduction, DType dtype, const std::vector<const char*>& rows,
                 size_t count, char* out);

}  // namespace moonlet::distributed
