// interp/binding/boxed_argument.h: an argument of a call as a boxed value, for ops whose signature
// is known only when they are registered: native ones, and those that scripts define.
#pragma once

#include "interp/binding/arg_reader.h"
#include "tensor/core/op_info.h"

namespace moonlet::binding {

// The argument at position `i` of the signature, read as `type`; throws as ArgReader does.
BoxedValue boxed_argument(ArgReader& args, int i, ArgType type);

}  // namespace moonlet::binding
