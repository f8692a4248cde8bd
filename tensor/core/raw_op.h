// tensor/core/raw_op.h: the ops without the tape as values at run time: what programs are made of.
// Composites have none, as they run as the ops they are made of.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tensor/core/op_info.h"

namespace moonlet {

struct PointwiseOp;

struct RawOp {
  using Call = void (*)(std::span<const BoxedValue> arguments, BoxedValues& results);

  const char* name;  // the row's: "add"
  const char* schema;
  OpKind kind;
  bool random = false;
  bool checks = false;  // may raise an error for elements that it reads: an index, a matrix
  // The forms, null where there is none. Dims are wrapped. In the out form the results come first
  // among the arguments, and several are not given back; the in-place form gives its first
  // argument.
  Call plain = nullptr, inplace = nullptr, out = nullptr;
  uint32_t tensors = 0;  // the row's arguments that are tensors, numbers in their place too, by bit
  // Of pointwise ops.
  const PointwiseOp* pointwise = nullptr;
  // The kernel itself, of ops that add no more to it than checks and new results: for a call that
  // was made before on tensors of the same geometry. Arguments as of the plain form.
  void (*kernel)(std::span<const BoxedValue> arguments, std::span<Tensor> results) = nullptr;

  Call form(OpInfo::Form which) const {
    return which == OpInfo::Form::Plain ? plain : which == OpInfo::Form::InPlace ? inplace : out;
  }
};

// The op of that row, or null.
const RawOp* find_raw_op(std::string_view name);

// Adds the ops of a family: a static object of its generated file.
struct RawOpFamily {
  explicit RawOpFamily(std::span<const RawOp> ops);
};

}  // namespace moonlet
