// interp/binding/arg_reader.cpp: matching the values of a call to the arguments of a signature.
#include "interp/binding/arg_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interp/binding/random_generator.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/uses_arg_reader.h"
#include "interp/state/nearest.h"
#include "tensor/runtime/execution.h"

namespace moonlet::binding {
namespace {

bool is_list(ArgType type) {
  return type == ArgType::IntList || type == ArgType::IntVector || type == ArgType::IndexVector ||
         type == ArgType::FloatVector || type == ArgType::DimList || type == ArgType::TensorList;
}

bool has_metatable(lua_State* L, int index) {
  if (lua_getmetatable(L, index) == 0) return false;
  lua_pop(L, 1);
  return true;
}

// Whether the table, which is no shape, has keys that are no positions of items.
bool has_other_keys(lua_State* L, int table) {
  if (shape_at(L, table)) return false;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, table));
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    if (!is_item(L, -1, count)) {
      lua_pop(L, 1);
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_item(lua_State* L, int index, lua_Integer count) {
  return lua_isinteger(L, index) && lua_tointeger(L, index) >= 1 &&
         lua_tointeger(L, index) <= count;
}

std::optional<int64_t> whole_number(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TNUMBER) return std::nullopt;
  int exact = 0;
  const lua_Integer value = lua_tointegerx(L, index, &exact);
  if (exact == 0) return std::nullopt;
  return value;
}

int64_t integer_argument(lua_State* L, int index, const char* op, const char* what) {
  const std::optional<int64_t> value = whole_number(L, index);
  if (!value) fail(op, ": ", what, " must be an integer, got ", type_name(L, index));
  return *value;
}

std::optional<Scalar> scalar_at(lua_State* L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) return Scalar(static_cast<int64_t>(lua_tointeger(L, index)));
      return Scalar(static_cast<double>(lua_tonumber(L, index)));
    case LUA_TBOOLEAN: return Scalar(lua_toboolean(L, index) != 0);
    case LUA_TUSERDATA:
      if (const std::optional<complex128> value = complex_at(L, index)) return Scalar(*value);
      return std::nullopt;
    default: return std::nullopt;
  }
}

void ArgReader::bind() {
  const int top = lua_gettop(L_);
  if (top > 0 && lua_type(L_, top) == LUA_TTABLE) {
    bind_general(top);
  } else if (!bind_plain(top)) {
    bind_positional(top, 0);
    check_required();
  }
}

// The common call, of plain values in the order of the arguments; false, with the slots undone,
// when it is another. Small ops spend much of their time on their arguments.
bool ArgReader::bind_plain(int top) {
  if (top > signature_.count) return false;
  for (int i = 0; i < top; ++i) {
    const ArgSpec& spec = signature_.args[i];
    if (spec.gather || spec.named_only || spec.type == ArgType::DType) return false;
    if (lua_type(L_, i + 1) == LUA_TNIL || spec.type == ArgType::MemoryFormat) return false;
    slot_[i] = i + 1;
  }
  for (int i = top; i < signature_.count; ++i) {
    if (signature_.args[i].required) return false;
    slot_[i] = 0;
  }
  return true;
}

bool ArgReader::bind_general(int top) {
  const bool named = has_other_keys(L_, top);
  // A table of items alone belongs to the list argument it stands for, if there is one.
  const int last = std::min(top, signature_.count) - 1;
  if (!named && top <= signature_.count && !signature_.args[last].named_only &&
      (is_list(signature_.args[last].type) || signature_.args[last].type == ArgType::Any)) {
    return bind_positional(top, 0) && check_required();
  }
  if (!named && top <= signature_.count && !signature_.args[last].named_only &&
      takes_tensor(last) && holds_numbers(top)) {
    if (quiet_) return false;
    slot_[last] = top;
    bad(last, signature_.args[last].type == ArgType::Operand ? "a tensor or a number" : "a tensor");
  }
  const lua_Integer items = static_cast<lua_Integer>(lua_rawlen(L_, top));
  luaL_checkstack(L_, static_cast<int>(std::min<lua_Integer>(items, 1 << 30)) + 2 * kMaxArgs,
                  "too many arguments in a table");
  for (lua_Integer k = 1; k <= items; ++k) lua_rawgeti(L_, top, k);
  return bind_positional(top - 1 + static_cast<int>(items), top) && bind_options(top) &&
         check_required();
}

// Gives each argument its stack index; `table` is the option table to step over, or 0.
bool ArgReader::bind_positional(int count, int table) {
  int position = 1;
  bool takes_dtype = false;
  for (int i = 0; i < signature_.count; ++i) {
    const ArgSpec& spec = signature_.args[i];
    slot_[i] = 0;
    takes_dtype = takes_dtype || spec.type == ArgType::DType || spec.type == ArgType::MemoryFormat;
    if (spec.named_only || position > count) continue;
    if (spec.gather && find_gathered(i, position, count, table)) continue;
    const int index = at(position++, table);
    if (lua_type(L_, index) != LUA_TNIL) slot_[i] = index;
  }
  if (takes_dtype) position_device();
  while (position <= count && lua_isnil(L_, at(position, table))) ++position;
  if (position > count) return true;
  if (quiet_) return false;
  fail(signature_.op, ": too many arguments; use: ", signature_.usage);
}

// A list given as several values. Returns false when it comes as one table, as usual.
bool ArgReader::find_gathered(int i, int& position, int count, int table) {
  const bool tensors = signature_.args[i].type == ArgType::TensorList;
  const int from = position;
  while (position <= count) {
    const int index = at(position, table);
    if (tensors ? tensor_cell(L_, index) == nullptr : lua_type(L_, index) != LUA_TNUMBER) break;
    ++position;
  }
  if (position <= count && lua_isnil(L_, at(position, table))) refuse_nil(i, position - from + 1);
  if (position == from) return false;
  slot_[i] = at(from, table);
  gather_from_ = from;
  gather_count_ = position - from;
  gather_table_ = table;
  return true;
}

// `x:view(-1, nil)`: sizes that end at a nil would quietly be fewer than the script wrote. The nil
// is a later argument's where one follows by position, and a list's that may be left out.
void ArgReader::refuse_nil(int i, int item) const {
  const ArgSpec& spec = signature_.args[i];
  if (quiet_ || (item == 1 && !spec.required)) return;
  for (int k = i + 1; k < signature_.count; ++k)
    if (!signature_.args[k].named_only) return;
  fail(signature_.op, ": item ", item, " of '", spec.name, "' is nil, ",
       spec.type == ArgType::TensorList ? "a tensor" : "an integer", " is expected");
}

bool ArgReader::names_device(int i) const {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TSTRING) return false;
  return moonlet::names_device(lua_tostring(L_, slot_[i]));
}

// `x:to("cuda")`, `x:to("cuda", "float64")`: a device where a dtype comes first; and PyTorch's
// order of what may follow, `x:to("cuda", "float64", non_blocking, copy)`.
void ArgReader::position_device() {
  const auto is_boolean = [this](int i) {
    return slot_[i] != 0 && lua_type(L_, slot_[i]) == LUA_TBOOLEAN;
  };
  for (int i = 1; i + 2 < signature_.count; ++i) {
    const ArgSpec* args = signature_.args;
    if (args[i].type != ArgType::MemoryFormat ||
        args[i + 2].name != std::string_view("non_blocking"))
      continue;
    const int from = args[i - 1].type == ArgType::Device && is_boolean(i - 1) ? i - 1 : i;
    const int copy = is_boolean(from + 1) ? from + 1 : 0;
    bool alone = is_boolean(from);
    for (int k = from + 1; k < i + 3; ++k) alone = alone && (slot_[k] == 0 || k == copy);
    if (!alone) continue;
    const int blocking = slot_[from], copied = copy != 0 ? slot_[copy] : 0;
    slot_[i - 1] = from < i ? 0 : slot_[i - 1];
    slot_[i] = 0;
    slot_[i + 1] = copied;
    slot_[i + 2] = blocking;
  }
  for (int i = 0; i + 1 < signature_.count; ++i) {
    if (signature_.args[i].type == ArgType::DType &&
        signature_.args[i + 1].type == ArgType::Device && names_device(i) && !names_device(i + 1))
      std::swap(slot_[i], slot_[i + 1]);
  }
}

bool ArgReader::bind_options(int table) {
  lua_pushnil(L_);
  while (lua_next(L_, table) != 0) {
    if (lua_type(L_, -2) != LUA_TSTRING) {
      const bool item = is_item(L_, -2, static_cast<lua_Integer>(lua_rawlen(L_, table)));
      lua_pop(L_, 1);
      if (item) continue;
      if (quiet_) return false;
      fail(signature_.op, ": an option's name must be a string, got ", luaL_typename(L_, -1));
    }
    const std::string_view key = lua_tostring(L_, -2);
    int found = -1;
    for (int i = 0; i < signature_.count; ++i)
      if (key == signature_.args[i].name) found = i;
    if (found < 0) {
      if (quiet_) return false;
      std::vector<const char*> names;
      for (int i = 0; i < signature_.count; ++i) names.push_back(signature_.args[i].name);
      fail(signature_.op, ": unknown option '", key, "'", did_you_mean(key, names),
           " (use: ", signature_.usage, ")");
    }
    if (slot_[found] != 0) {
      if (quiet_) return false;
      fail(signature_.op, ": argument '", key, "' is given twice");
    }
    // The value stays on the stack, under the key that lua_next needs.
    slot_[found] = lua_gettop(L_) - 1;
    lua_insert(L_, -2);
  }
  return true;
}

bool ArgReader::check_required() {
  for (int i = 0; i < signature_.count; ++i) {
    if (slot_[i] != 0 || !signature_.args[i].required) continue;
    if (quiet_) return false;
    fail(signature_.op, ": argument '", signature_.args[i].name,
         lua_type(L_, i + 1) == LUA_TNIL ? "' is nil" : "' is missing",
         "; use: ", signature_.usage);
  }
  return true;
}

bool ArgReader::fits(lua_State* L, const Signature& signature) {
  const int top = lua_gettop(L);
  ArgReader reader(L, signature, true);
  bool good = top > 0 && lua_type(L, top) == LUA_TTABLE
                  ? reader.bind_general(top)
                  : reader.bind_positional(top, 0) && reader.check_required();
  for (int i = 0; good && i < signature.count; ++i)
    if (reader.slot_[i] != 0) good = reader.matches(i);
  lua_settop(L, top);
  return good;
}

// One number stands for a list where the list could be written out as numbers, has a fixed length
// or holds dims.
bool ArgReader::list_matches(int i) {
  const ArgSpec& spec = signature_.args[i];
  if (lua_type(L_, slot_[i]) != LUA_TTABLE)
    return lua_type(L_, slot_[i]) == LUA_TNUMBER &&
           (spec.gather || spec.length > 0 || spec.type == ArgType::DimList);
  lua_rawgeti(L_, slot_[i], 1);
  const int type = lua_type(L_, -1);
  lua_pop(L_, 1);
  return type == LUA_TNIL || type == LUA_TNUMBER;
}

bool ArgReader::matches(int i) {
  const int index = slot_[i];
  const int type = lua_type(L_, index);
  switch (signature_.args[i].type) {
    case ArgType::Tensor:
    case ArgType::OptionalTensor: return tensor_cell(L_, index) != nullptr;
    case ArgType::TensorList: return type == LUA_TTABLE || tensor_cell(L_, index) != nullptr;
    case ArgType::Operand:
      return tensor_cell(L_, index) != nullptr || scalar_at(L_, index).has_value();
    case ArgType::Scalar: return scalar_at(L_, index).has_value();
    case ArgType::Int:
    case ArgType::Dim:
    case ArgType::Index: return whole_number(L_, index).has_value();
    case ArgType::Float: return type == LUA_TNUMBER;
    case ArgType::IntList:
    case ArgType::IntVector:
    case ArgType::IndexVector:
    case ArgType::FloatVector:
    case ArgType::DimList: return list_matches(i);
    case ArgType::Bool: return type == LUA_TBOOLEAN;
    case ArgType::False: return type == LUA_TBOOLEAN && lua_toboolean(L_, index) == 0;
    case ArgType::String:
    case ArgType::DType:
    case ArgType::Device: return type == LUA_TSTRING;
    case ArgType::Generator: return test_generator(L_, index) != nullptr;
    case ArgType::MemoryFormat:  // whatever it is, the message about it is the better one
    case ArgType::Any: return true;
  }
  return false;
}

bool ArgReader::takes_tensor(int i) const {
  const ArgType type = signature_.args[i].type;
  return type == ArgType::Tensor || type == ArgType::OptionalTensor || type == ArgType::Operand;
}

// Whether the value is a list of numbers or of such lists, from which ml.tensor makes a tensor.
bool ArgReader::holds_numbers(int index) const {
  if (lua_type(L_, index) != LUA_TTABLE) return false;
  if (shape_at(L_, index)) return true;
  lua_rawgeti(L_, index, 1);
  const int type = lua_type(L_, -1);
  lua_pop(L_, 1);
  return type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TTABLE;
}

void ArgReader::bad(int i, const char* wanted) const {
  const ArgSpec& spec = signature_.args[i];
  if (slot_[i] == 0) {
    fail(signature_.op, ": argument '", spec.name, "' is missing; use: ", signature_.usage);
  }
  if (is_freed(L_, slot_[i]))
    fail(signature_.op, ": argument '", spec.name, "': the tensor has been freed");
  std::string got = type_name(L_, slot_[i]);
  if (lua_type(L_, slot_[i]) == LUA_TNUMBER || lua_type(L_, slot_[i]) == LUA_TSTRING) {
    lua_pushvalue(L_, slot_[i]);  // a copy: conversion to text would change the value in place
    size_t length = 0;
    const char* shown = lua_tolstring(L_, -1, &length);
    got += text(" ", std::string_view(shown, std::min<size_t>(length, 80)));
    lua_pop(L_, 1);
  }
  fail(signature_.op, ": argument '", spec.name, "' must be ", wanted, ", got ", got,
       takes_tensor(i) && holds_numbers(slot_[i]) ? "; ml.tensor{...} makes a tensor of a table"
                                                  : "");
}

const Tensor& ArgReader::optional_tensor(int i) {
  static const Tensor kNone;
  return slot_[i] == 0 ? kNone : tensor(i);
}

std::vector<Tensor> ArgReader::tensors(int i) {
  std::vector<Tensor> out;
  if (slot_[i] == 0) return out;
  if (signature_.args[i].gather && tensor_cell(L_, slot_[i]) != nullptr) {
    for (int k = 0; k < gather_count_; ++k)
      out.push_back(check_tensor(L_, at(gather_from_ + k, gather_table_), signature_.op));
    return out;
  }
  if (lua_type(L_, slot_[i]) != LUA_TTABLE) bad(i, "a table of tensors");
  const bool scripted = has_metatable(L_, slot_[i]);
  const int64_t count = luaL_len(L_, slot_[i]);
  for (int64_t k = 1; k <= count; ++k) {
    lua_geti(L_, slot_[i], k);
    const Tensor* cell = tensor_cell(L_, -1);
    const bool none = signature_.args[i].length > 0 && !lua_toboolean(L_, -1);
    if (!none && (cell == nullptr || !cell->defined())) {
      fail(signature_.op, ": item ", k, " of '", signature_.args[i].name,
           "' must be a tensor, got ", type_name(L_, -1));
    }
    out.push_back(none ? Tensor() : *cell);
    lua_pop(L_, 1);
  }
  if (scripted) check_not_freed();
  return out;
}

std::vector<Tensor> ArgReader::outs(int i, int count) {
  std::vector<Tensor> out = tensors(i);
  if (out.size() != static_cast<size_t>(count))
    fail(signature_.op, ": argument 'out' must hold ", count, " tensors, got ", out.size());
  return out;
}

// The op is handed references to the tensors of the call. The metamethods of a list are code of the
// script, which may have freed one.
void ArgReader::check_not_freed() const {
  for (int i = 0; i < signature_.count; ++i) {
    const Tensor* cell = slot_[i] != 0 ? tensor_cell(L_, slot_[i]) : nullptr;
    if (cell != nullptr && !cell->defined())
      fail(signature_.op, ": argument '", signature_.args[i].name,
           "': the tensor was freed while the arguments were read");
  }
}

Scalar ArgReader::number_operand(int i) {
  const std::optional<Scalar> value =
      slot_[i] != 0 ? scalar_at(L_, slot_[i]) : std::optional<Scalar>();
  if (!value) bad(i, "a tensor or a number");
  return *value;
}

Scalar ArgReader::scalar(int i) {
  const std::optional<Scalar> value =
      slot_[i] != 0 ? scalar_at(L_, slot_[i]) : std::optional<Scalar>();
  if (!value) bad(i, "a number");
  return *value;
}

int64_t ArgReader::integer(int i) {
  const std::optional<int64_t> value =
      slot_[i] != 0 ? whole_number(L_, slot_[i]) : std::optional<int64_t>();
  if (!value) bad(i, "an integer");
  return *value;
}

double ArgReader::number(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TNUMBER) bad(i, "a number");
  return lua_tonumber(L_, slot_[i]);
}

bool ArgReader::boolean(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TBOOLEAN) bad(i, "true or false");
  return lua_toboolean(L_, slot_[i]) != 0;
}

std::string_view ArgReader::string(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TSTRING) bad(i, "a string");
  size_t length = 0;
  const char* text = lua_tolstring(L_, slot_[i], &length);
  return {text, length};
}

// What `find` knows by the argument's name; its error tells of the argument too.
template <class T>
T ArgReader::named(int i, T (*find)(std::string_view)) {
  try {
    return find(string(i));
  } catch (const Error& e) {
    fail(signature_.op, ": argument '", signature_.args[i].name, "': ", e.what());
  }
}

DType ArgReader::dtype(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TSTRING) bad(i, "a dtype such as ml.float32");
  return named(i, dtype_from_name);
}

Device ArgReader::device(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TSTRING)
    bad(i, "a device such as \"cpu\" or \"cuda:0\"");
  return named(i, device_from_name);
}

MemoryFormat ArgReader::memory_format(int i) {
  if (slot_[i] == 0 || lua_type(L_, slot_[i]) != LUA_TSTRING)
    bad(i, "a memory format such as \"channels_last\"");
  return named(i, memory_format_from_name);
}

int64_t ArgReader::integer_at(int index, int i) {
  const std::optional<int64_t> value = whole_number(L_, index);
  if (!value) {
    fail(signature_.op, ": argument '", signature_.args[i].name, "' must hold integers, got ",
         type_name(L_, index));
  }
  return *value;
}

std::vector<int64_t> ArgReader::gathered(int i) {
  std::vector<int64_t> out;
  for (int k = 0; k < gather_count_; ++k)
    out.push_back(integer_at(at(gather_from_ + k, gather_table_), i));
  return out;
}

std::vector<int64_t> ArgReader::integers(int i) {
  const ArgSpec& spec = signature_.args[i];
  const int index = slot_[i];
  if (index != 0 && lua_type(L_, index) == LUA_TNUMBER) {
    if (spec.gather && index == at(gather_from_, gather_table_) && gather_count_ > 0)
      return gathered(i);
    return {integer(i)};
  }
  if (index == 0 || lua_type(L_, index) != LUA_TTABLE) bad(i, "an integer or a table of integers");
  const bool scripted = has_metatable(L_, index);
  const int64_t count = luaL_len(L_, index);
  std::vector<int64_t> out;
  for (int64_t k = 1; k <= count; ++k) {
    lua_geti(L_, index, k);
    out.push_back(integer_at(-1, i));
    lua_pop(L_, 1);
  }
  if (scripted) check_not_freed();
  return out;
}

std::vector<double> ArgReader::numbers(int i) {
  const int index = slot_[i];
  if (index == 0 || lua_type(L_, index) != LUA_TTABLE) bad(i, "a table of numbers");
  const bool scripted = has_metatable(L_, index);
  const int64_t count = luaL_len(L_, index);
  std::vector<double> out;
  for (int64_t k = 1; k <= count; ++k) {
    if (lua_geti(L_, index, k) != LUA_TNUMBER)
      fail(signature_.op, ": argument '", signature_.args[i].name, "' must hold numbers, got ",
           type_name(L_, -1));
    out.push_back(lua_tonumber(L_, -1));
    lua_pop(L_, 1);
  }
  if (scripted) check_not_freed();
  return out;
}

Dims ArgReader::ints(int i) {
  const ArgSpec& spec = signature_.args[i];
  if (spec.length > 0 && slot_[i] != 0 && lua_type(L_, slot_[i]) == LUA_TNUMBER)
    return Dims::filled(spec.length, integer(i));
  Dims out;
  for (int64_t value : integers(i)) out.push_back(value);
  if (spec.length > 0 && out.size() == 1) return Dims::filled(spec.length, out[0]);
  if (spec.length > 0 && out.size() != spec.length) {
    fail(signature_.op, ": argument '", spec.name, "' must hold ", spec.length, " integers, got ",
         out.size());
  }
  return out;
}

Generator* ArgReader::generator(int i) {
  if (slot_[i] == 0) return nullptr;
  if (Generator* given = test_generator(L_, slot_[i])) return given;
  bad(i, "an ml.Generator");
}

int64_t ArgReader::from_one(int64_t value, int i) const {
  if (value == 0) {
    const ArgType type = signature_.args[i].type;
    const bool position = type == ArgType::Index || type == ArgType::IndexVector;
    fail(signature_.op, ": ", signature_.args[i].name,
         " 0: ", position ? "positions" : "dimensions", " start at 1");
  }
  return value > 0 ? value - 1 : value;
}

int64_t ArgReader::dim(int i) { return from_one(integer(i), i); }

int64_t ArgReader::index(int i) { return from_one(integer(i), i); }

std::vector<int64_t> ArgReader::indices(int i) {
  std::vector<int64_t> out = integers(i);
  for (int64_t& position : out) position = from_one(position, i);
  return out;
}

std::vector<Tensor> ArgReader::index_tensors(int i) {
  std::vector<Tensor> out;
  for (const Tensor& given : tensors(i)) {
    if (!given.defined() || given.dtype() != DType::Bool) {
      out.push_back(given);
      continue;
    }
    check(given.dim() > 0, signature_.op, ": a mask of no dimensions cannot index");
    // The tensor that is indexed comes first in every op.
    const Tensor& indexed = tensor(0);
    for (int d = 0, at = static_cast<int>(out.size()); d < given.dim(); ++d)
      check(at + d < indexed.dim() && indexed.size(at + d) == given.size(d), signature_.op,
            ": a mask of shape ", given.sizes(), " does not fit a tensor of shape ",
            indexed.sizes(), " at dimension ", at + d + 1);
    const Tensor positions = nonzero(given);
    for (int d = 0; d < given.dim(); ++d) out.push_back(select(positions, 1, d));
  }
  return out;
}

Dims ArgReader::dims(int i) {
  Dims out = ints(i);
  for (int k = 0; k < out.size(); ++k) out[k] = from_one(out[k], i);
  return out;
}

Options ArgReader::options(int i) {
  Options out;
  out.dtype = slot_[i] != 0 ? dtype(i) : execution.default_dtype;
  out.device = slot_[i + 1] != 0 ? device(i + 1) : execution.default_device;
  return out;
}

Options ArgReader::options(int i, const Scalar& value) {
  Options out = options(i);
  if (slot_[i] == 0) out.dtype = value.default_dtype();
  return out;
}

}  // namespace moonlet::binding
