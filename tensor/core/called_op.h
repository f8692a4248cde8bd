// tensor/core/called_op.h: which op a boxed call is of, for functions that stand for several ops:
// those that scripts define share one.
#pragma once

#include "tensor/core/op_info.h"

namespace moonlet {

// The op whose call or body `call_boxed` runs on this thread. To be asked before other ops run.
const OpInfo& called_op() noexcept;

}  // namespace moonlet
