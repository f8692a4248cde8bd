// tensor/core/registered_ops.h: ops that are added at run time: to what programs are made of, and
// which one of several is called that share their functions.
#pragma once

#include "tensor/core/raw_op.h"

namespace moonlet {

// Adds an op that find_raw_op finds from then on; it must live as long as the process, and there is
// no other of its name. Thread-safe.
void register_raw_op(const RawOp& op);

// The op whose call or body `call_boxed` runs on this thread, for functions that stand for several:
// those that scripts define share one. To be asked before other ops run.
const OpInfo& called_op() noexcept;

}  // namespace moonlet
