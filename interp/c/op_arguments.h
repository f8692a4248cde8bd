// interp/c/op_arguments.h: arguments of ops as the C interface gives them: by the types of a row,
// with the defaults that it writes.
#pragma once

#include "interp/c/c.h"
#include "tensor/core/op_info.h"

namespace moonlet::c {

// An argument of one form of an op; in the out form the results come first.
struct OpArgument {
  const char* name;
  const char* type;           // as in the row: "Dim[]"
  const char* default_value;  // as in the row, or null
};
int argument_count(const OpInfo& op);
OpArgument argument_at(const OpInfo& op, int i);

// The boxed value of one that was given, and of one that was not. Errors name the op and the
// argument.
BoxedValue boxed(const moonlet_value& value, const OpInfo& op, const OpArgument& argument);
BoxedValue default_of(const OpInfo& op, const OpArgument& argument);

}  // namespace moonlet::c
