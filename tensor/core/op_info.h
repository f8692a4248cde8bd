// tensor/core/op_info.h: ops as values at run time: what a row says about an op, a way to call it
// with boxed arguments, and finding it by name. Ops that a plugin registers are equal to those of
// the table, without generated code.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"
#include "tensor/memory/free_list.h"

namespace moonlet {

class BatchCall;
class Generator;

// An argument or result of any op. A monostate stands for one that is not given. An Operand is a
// Tensor or a Scalar; dims and positions are 0-based.
using BoxedValue =
    std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar, int64_t, double, bool,
                 std::string, Dims, std::vector<int64_t>, std::vector<double>, DType, Device,
                 MemoryFormat, Options, Generator*>;
// Made and dropped with every call that a mode sees.
using BoxedValues = std::vector<BoxedValue, memory::SmallBlockAllocator<BoxedValue>>;

struct ArgumentInfo {
  const char* name;
  const char* type;           // as in the row: "Tensor", "Dim[]"
  const char* default_value;  // as in the row, or null when the argument must be given
  bool written;               // the op writes to it
};

// What autocast does with the op's floating arguments, as PyTorch's lists: the CPU has its own, and
// devices have one.
enum class AutocastPolicy : uint8_t { None, LowerPrecision, Float32, Promote };
struct AutocastPolicies {
  AutocastPolicy host, device;
  AutocastPolicy on(DeviceType type) const { return type == DeviceType::CPU ? host : device; }
};

// How an op gets its results (docs/op-table.md, "The kinds"), in the order of `name(OpKind)`.
enum class OpKind : uint8_t { Pointwise, Structured, Update, Allocating, View, Composite };
// "pointwise", as rows write it.
const char* name(OpKind kind);

// What all forms of a row have in common.
struct RowInfo {
  const char* name;
  const char* schema;  // "mm(Tensor a, Tensor b) -> Tensor"
  const char* family;
  OpKind kind;
  DTypeSet dtypes;      // of the computation
  bool random = false;  // draws random numbers
  bool differentiable = false;
  AutocastPolicies autocast{};
  const ArgumentInfo* arguments = nullptr;
  int argument_count = 0;
  int result_count = 0;
  bool internal = false;  // for the library itself: scripts do not call it by name
  // Its row says the derivative: always of those that are not composites.
  bool own_derivative = false;
  // Linear in each differentiable argument, so that its tangent is the op itself on tangents.
  bool linear = false;
  // How vmap calls it for a whole batch (autograd/batching.h); null: sample by sample.
  void (*batch_rule)(BatchCall& call) = nullptr;
};

struct OpInfo {
  enum class Form : uint8_t { Plain, InPlace, Out };

  const char* name;  // "add", "add_", "add_out"
  const RowInfo* row;
  Form form;
  // Calls the op through its public function: recorded, and seen by the modes. In the out form the
  // results come first among the arguments.
  void (*call)(std::span<const BoxedValue> arguments, BoxedValues& results);
  // Of the plain form of a composite: calls the function made of other ops, past the modes' test,
  // so that those ops meet the modes again. Else null.
  void (*body)(std::span<const BoxedValue> arguments, BoxedValues& results) = nullptr;

  bool is_view() const { return row->kind == OpKind::View; }
  // Whether argument i of this form is written.
  bool writes(int i) const;
};

// The op of that name, or null.
const OpInfo* find_op(std::string_view name);
// All ops, family by family, then those registered.
std::vector<const OpInfo*> all_ops();

// Adds an op that is not in the table; it and what it points to must live as long as the process.
// Throws when the name is taken. Thread-safe.
void register_op(const OpInfo& op);
// Adds the ops of a family of the table: a static object of its generated file.
struct OpFamily {
  explicit OpFamily(std::span<const OpInfo* const> ops);
};

// Calls `function`, the call or the body of an op. Throws when the arguments are not of the number
// and the kinds that the op takes.
void call_boxed(const OpInfo& op, void (*function)(std::span<const BoxedValue>, BoxedValues&),
                std::span<const BoxedValue> arguments, BoxedValues& results);
// Calls an op by its description, through the modes.
BoxedValues call_op(const OpInfo& op, std::span<const BoxedValue> arguments);

}  // namespace moonlet
