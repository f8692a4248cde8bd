// tensor/cpu/reduce/run_fold.h: where the kernels of sums leave what run_fold_of calls, so that a
// library of a few ops, which has none of them, need not hold them for it.
#pragma once

#include <memory>
#include <string_view>

#include "tensor/cpu/reduce/reduce.h"

namespace moonlet::cpu {

using RunFoldMaker = std::unique_ptr<RunFold> (*)(std::string_view op, DType from, DType to,
                                                  int64_t numel);
// Null where there are no sums.
extern RunFoldMaker run_fold_maker;

}  // namespace moonlet::cpu
