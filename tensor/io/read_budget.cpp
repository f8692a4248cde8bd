// tensor/io/read_budget.cpp: the bound of what a reader makes of a file.
#include "tensor/io/read_budget.h"

#include <algorithm>
#include <limits>

#include "tensor/core/error.h"

namespace moonlet::io {

int64_t read_limit(uint64_t file_bytes, int64_t max_bytes) noexcept {
  if (max_bytes > 0) return max_bytes;
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / kReadFactor;
  return std::max(kReadFloor, static_cast<int64_t>(std::min(file_bytes, kMost)) * kReadFactor);
}

void ReadBudget::exceed() const {
  fail("to read it takes more than ", limit_,
       " bytes, the bound for a file of this size; the option 'max_bytes' raises it");
}

}  // namespace moonlet::io
