// tensor/functors/decomposition_errors.h: what LAPACK's `info` of each matrix of a batch says, as
// errors: the same on every device.
#pragma once

#include <string>

#include "tensor/core/tensor.h"

namespace moonlet {

// How many matrices x has: (..., m, n).
inline int64_t batch_count(const Tensor& x) {
  int64_t out = 1;
  for (int d = 0; d + 2 < x.dim(); ++d) out *= x.size(d);
  return out;
}

// Throws at the first entry whose info is not 0: "op: what (batch entry 3): position 2".
template <class Text>
void check_info(const char* op, const Tensor& matrices, const int* info, Text&& what) {
  const int64_t count = batch_count(matrices);
  for (int64_t i = 0; i < count; ++i) {
    if (info[i] == 0) continue;
    const std::string where = matrices.dim() > 2 ? text(" (batch entry ", i + 1, ")") : "";
    fail(op, ": ", what(info[i], where));
  }
}

inline std::string singular(int position, const std::string& where) {
  return text("the matrix is singular", where, ": U(", position, ", ", position, ") is zero");
}

inline std::string not_positive(int order, const std::string& where) {
  return text("the matrix is not positive definite", where, ": its leading minor of order ", order,
              " is not positive");
}

inline std::string not_converged(int, const std::string& where) {
  return text("the iteration did not converge", where);
}

}  // namespace moonlet
