// interp/binding/arg_reader.h: reads the arguments of an op from the Lua stack: positional, or a
// table with named fields, or both; turns 1-based dims and positions into 0-based ones, here and
// only here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/operand.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::binding {

enum class ArgType : uint8_t {
  Tensor,
  OptionalTensor,
  TensorList,
  Operand,
  Scalar,
  Int,
  IntList,
  IntVector,  // a list of any length, where an IntList has at most as many as dims
  Float,
  FloatVector,
  Bool,
  False,  // chooses an overload
  String,
  Dim,
  DimList,
  Index,
  IndexVector,
  DType,
  Device,
  MemoryFormat,
  Generator,
  Any
};

struct ArgSpec {
  const char* name;
  ArgType type;
  bool required = true;
  bool gather = false;      // a list that may come as several arguments: view(3, 4)
  bool named_only = false;  // cannot be given by position: dtype, device, out
  int8_t length = 0;        // int[2]: one number stands for so many; a tensor list: may hold false
};

struct Signature {
  const char* op;
  const char* usage;  // "sum(x, dim={}, keepdim=false)"
  const ArgSpec* args;
  int count;
};

inline constexpr int kMaxArgs = 24;

// Whether a call may have `wanted` arguments: so many values, or a table that could hold more.
inline bool may_fit(lua_State* L, int wanted) {
  const int top = lua_gettop(L);
  return top >= wanted || (top > 0 && lua_type(L, top) == LUA_TTABLE);
}

// One call's arguments, matched to a signature. Getters take the 0-based position in the
// signature; they throw Error naming the op, the argument, what came and what was wanted.
class ArgReader {
 public:
  ArgReader(lua_State* L, const Signature& signature) : L_(L), signature_(signature) { bind(); }

  // Whether the call fits the signature by count, names and types. Never throws; leaves the stack.
  static bool fits(lua_State* L, const Signature& signature);

  bool has(int i) const { return slot_[i] != 0; }
  // The stack index of an argument, 0 when absent.
  int slot(int i) const { return slot_[i]; }

  Tensor& tensor(int i) {
    Tensor* cell = slot_[i] != 0 ? tensor_cell(L_, slot_[i]) : nullptr;
    if (cell == nullptr || !cell->defined()) [[unlikely]]
      bad(i, "a tensor");
    return *cell;
  }
  // Undefined when absent.
  const Tensor& optional_tensor(int i);
  std::vector<Tensor> tensors(int i);
  // The same of positions and masks, these as the positions where they are true.
  std::vector<Tensor> index_tensors(int i);
  Operand operand(int i) {
    if (slot_[i] != 0) {
      const Tensor* cell = tensor_cell(L_, slot_[i]);
      if (cell != nullptr && cell->defined()) return Operand(*cell);
    }
    return Operand(number_operand(i));
  }
  // The tensors of `out`, which must be so many.
  std::vector<Tensor> outs(int i, int count);
  Scalar scalar(int i);
  int64_t integer(int i);
  double number(int i);
  bool boolean(int i);
  std::string_view string(int i);
  DType dtype(int i);
  Device device(int i);
  MemoryFormat memory_format(int i);
  // A list of integers; a plain one fills `length` positions of int[N].
  Dims ints(int i);
  std::vector<int64_t> integers(int i);
  std::vector<double> numbers(int i);
  // A list of positions, each as index() gives it.
  std::vector<int64_t> indices(int i);
  // Null when absent.
  Generator* generator(int i);
  // 0-based, or negative from the end.
  int64_t dim(int i);
  Dims dims(int i);
  int64_t index(int i);
  // The fields dtype and device that start at position `i`.
  Options options(int i);
  // The same, the dtype being that of `value` unless given: int64, bool, complex or the default.
  Options options(int i, const Scalar& value);

  [[noreturn]] void bad(int i, const char* wanted) const;

 private:
  bool takes_tensor(int i) const;
  bool holds_numbers(int index) const;
  ArgReader(lua_State* L, const Signature& signature, bool quiet)
      : L_(L), signature_(signature), quiet_(quiet) {}
  void bind();
  bool bind_plain(int top);
  bool bind_general(int top);
  bool bind_positional(int count, int table);
  bool bind_options(int table);
  bool find_gathered(int i, int& position, int count, int table);
  void refuse_nil(int i, int item) const;
  bool names_device(int i) const;
  void position_device();
  bool check_required();
  bool matches(int i);
  bool list_matches(int i);
  int at(int position, int table) const {
    return position + (table != 0 && position >= table ? 1 : 0);
  }
  int64_t integer_at(int index, int i);
  template <class T>
  T named(int i, T (*find)(std::string_view));
  std::vector<int64_t> gathered(int i);
  void check_not_freed() const;
  int64_t from_one(int64_t value, int i) const;
  Scalar number_operand(int i);

  lua_State* L_;
  const Signature& signature_;
  bool quiet_ = false;
  int slot_[kMaxArgs];
  int gather_count_ = 0;  // how many stack values the gathered list takes
  int gather_table_ = 0;  // the option table they lie around, or 0
  int gather_from_ = 0;   // their first position
};

// Whether the key at a stack index is the position of one of a table's `count` items.
bool is_item(lua_State* L, int index, lua_Integer count);

// Reads an integer at a stack index: a Lua integer, or a float or string of a whole value is not
// silently cut. Returns nothing when it is no whole number.
std::optional<int64_t> whole_number(lua_State* L, int index);
// The integer at a stack index; throws Error naming `op` and `what` otherwise.
int64_t integer_argument(lua_State* L, int index, const char* op, const char* what);
// A number, complex ones too, or a boolean as a Scalar; nothing for other values.
std::optional<Scalar> scalar_at(lua_State* L, int index);

}  // namespace moonlet::binding
