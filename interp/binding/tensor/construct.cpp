// interp/binding/tensor/construct.cpp: tensors from Lua values and Lua values from tensors.
#include <algorithm>
#include <limits>
#include <optional>

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/program/program_module.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/index.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/uses_construct.h"
#include "interp/state/nearest.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/captured_call.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::binding {
namespace {

// What the leaves of a nested table are, in rising order of promotion.
enum class Leaf { None, Bool, Int, Float, Complex };

struct Scan {
  const char* op;
  Dims sizes = {};
  Leaf leaf = Leaf::None;
  int64_t path[kMaxDims + 1] = {};
};

// "[2][1]": where in the nested table the scan stands.
std::string path_text(const Scan& scan, int depth) {
  std::string out;
  for (int i = 0; i < depth; ++i) out += text("[", scan.path[i], "]");
  return out.empty() ? "the value" : "item " + out;
}

Leaf leaf_kind(lua_State* L, int index, const Scan& scan, int depth) {
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN: return Leaf::Bool;
    case LUA_TNUMBER: return lua_isinteger(L, index) ? Leaf::Int : Leaf::Float;
    default:
      if (complex_at(L, index)) return Leaf::Complex;
      fail(scan.op, ": ", path_text(scan, depth), " must be a number, a boolean or a table, got ",
           type_name(L, index), tensor_cell(L, index) != nullptr ? "; ml.stack joins tensors" : "");
  }
}

// Pushes item i of the table on top of the stack, a shape as a plain list.
void push_item(lua_State* L, int64_t i) {
  lua_rawgeti(L, -1, i);
  if (lua_type(L, -1) != LUA_TTABLE) return;
  push_plain_list(L, -1);
  lua_remove(L, -2);
}

// Checks that the table on top of the stack is regular below `depth` and notes the leaves' kind.
void scan_table(lua_State* L, Scan& scan, int depth, bool first) {
  const int64_t count = static_cast<int64_t>(lua_rawlen(L, -1));
  if (first) {
    if (depth == kMaxDims) fail(scan.op, ": tables nest deeper than ", kMaxDims, " dimensions");
    scan.sizes.push_back(count);
  } else if (depth >= scan.sizes.size() || scan.sizes[depth] != count) {
    fail(scan.op, ": ", path_text(scan, depth), " has ", count,
         " items where the ones before have ",
         depth >= scan.sizes.size() ? text("none") : text(scan.sizes[depth]));
  }
  luaL_checkstack(L, 3, "tables nest too deeply");
  const bool leaves = !first && depth + 1 == scan.sizes.size();
  for (int64_t i = 1; i <= count; ++i) {
    if (i % kStopBlock == 1) stop_if_requested();
    push_item(L, i);
    scan.path[depth] = i;
    const bool table = lua_type(L, -1) == LUA_TTABLE;
    const bool first_below = first && i == 1;
    if (!table) {
      const Leaf leaf = leaf_kind(L, -1, scan, depth + 1);
      if (!leaves && depth + 1 < scan.sizes.size())
        fail(scan.op, ": ", path_text(scan, depth + 1),
             " is a number where the ones before are tables");
      if (leaf > scan.leaf) scan.leaf = leaf;
    } else {
      scan_table(L, scan, depth + 1, first_below);
    }
    lua_pop(L, 1);
  }
}

// Writes the leaves in row order; throws on a number that `dtype`, which they are meant for, cannot
// hold.
template <class T>
T* fill_from(lua_State* L, T* out, int depth, DType dtype, const Scan& scan) {
  for (int64_t i = 1; i <= scan.sizes[depth]; ++i) {
    if (i % kStopBlock == 1) stop_if_requested();
    push_item(L, i);
    if (depth + 1 < scan.sizes.size()) {
      out = fill_from(L, out, depth + 1, dtype, scan);
    } else {
      const Scalar value = *scalar_at(L, -1);
      check_fits(value, dtype, scan.op);
      *out++ = value.to<T>();
    }
    lua_pop(L, 1);
  }
  return out;
}

Tensor converted(Tensor x, std::optional<DType> dtype, Device device) {
  if ((!dtype || *dtype == x.dtype()) && device == x.device()) return x;
  return to(x, dtype, device);
}

Tensor from_table(lua_State* L, int value, std::optional<DType> dtype, Device device,
                  const char* op) {
  Scan scan{.op = op};
  push_plain_list(L, value);
  scan_table(L, scan, 0, true);
  const DType own = scan.leaf == Leaf::Bool      ? DType::Bool
                    : scan.leaf == Leaf::Int     ? DType::Int64
                    : scan.leaf == Leaf::Complex ? complex_of(execution.default_dtype)
                                                 : execution.default_dtype;
  const DType wanted = dtype.value_or(own);
  check(scan.leaf != Leaf::Complex || is_complex(wanted), op, ": complex numbers do not fit dtype ",
        wanted, ", which is real");
  // Numbers go by way of the widest dtype of their kind, integers meant for integers exactly.
  const DType wide = scan.leaf == Leaf::Complex                      ? DType::Complex128
                     : scan.leaf == Leaf::Bool                       ? DType::Bool
                     : wanted == DType::UInt64                       ? DType::UInt64
                     : scan.leaf == Leaf::Int || is_integral(wanted) ? DType::Int64
                                                                     : DType::Float64;
  Tensor host = empty_plain(scan.sizes, {wide, {}});
  if (host.numel() > 0) {
    visit<bit(DType::Bool) | bit(DType::Int64) | bit(DType::UInt64) | bit(DType::Float64) |
          bit(DType::Complex128)>(
        wide, [&]<class T>() { fill_from(L, host.elements<T>(), 0, wanted, scan); });
  }
  lua_pop(L, 1);
  return converted(host, wanted, device);
}

// Whether the first thing in the nested table at `index` that is no table is a tensor.
bool begins_with_tensor(lua_State* L, int index) {
  luaL_checkstack(L, 2, "tables nest too deeply");
  lua_pushvalue(L, index);
  for (int depth = 0; depth < kMaxDims && lua_type(L, -1) == LUA_TTABLE; ++depth) {
    lua_rawgeti(L, -1, 1);
    lua_remove(L, -2);
  }
  const bool found = tensor_cell(L, -1) != nullptr;
  lua_pop(L, 1);
  return found;
}

// The tensors and numbers of the nested table at `index` side by side; all have one shape.
Tensor stacked(lua_State* L, int index, const char* op, int depth) {
  if (lua_type(L, index) != LUA_TTABLE) {
    const Tensor part = tensor_from_value(L, index, std::nullopt, Device{}, op);
    return tensor_cell(L, index) != nullptr ? detach(part) : part;
  }
  check(depth < kMaxDims, op, ": tables nest deeper than ", kMaxDims, " dimensions");
  luaL_checkstack(L, 3, "tables nest too deeply");
  index = lua_absindex(L, index);
  std::vector<Tensor> parts;
  const auto count = static_cast<int64_t>(lua_rawlen(L, index));
  for (int64_t i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    const Tensor part = stacked(L, -1, op, depth + 1);
    parts.push_back(to(part, std::nullopt, parts.empty() ? part.device() : parts[0].device()));
    check(part.sizes() == parts[0].sizes(), op, ": item ", i, " has shape ", part.sizes(),
          ", and the ones before have ", parts[0].sizes());
    lua_pop(L, 1);
  }
  return stack(parts, 0);
}

constexpr ArgSpec kTensorArgs[] = {{"value", ArgType::Any},
                                   {"dtype", ArgType::DType, false, false, true},
                                   {"device", ArgType::Device, false, false, true},
                                   {"requires_grad", ArgType::Bool, false, false, true}};
constexpr char kTensorName[] = "tensor";
const Signature kTensorSignature = {kTensorName, "tensor(value, {dtype, device, requires_grad})",
                                    kTensorArgs, std::size(kTensorArgs)};

bool is_filled_table(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  if (lua_rawlen(L, index) > 0) return true;
  if (lua_getmetatable(L, index) != 0) {  // a shape
    lua_pop(L, 1);
    return false;
  }
  lua_pushnil(L);
  if (lua_next(L, index) == 0) return false;
  lua_pop(L, 2);
  return true;
}

// A tensor of its own memory and without history of the value at a stack index.
Tensor made_tensor(lua_State* L, int value, std::optional<DType> dtype,
                   std::optional<Device> device, const char* op) {
  const Tensor* source = tensor_cell(L, value);
  if (source != nullptr && !source->defined()) source = nullptr;
  const Device own = source != nullptr ? source->device() : execution.default_device;
  if (source == nullptr && lua_type(L, value) == LUA_TTABLE && begins_with_tensor(L, value)) {
    GradModeGuard off(false);
    const Tensor all = stacked(L, value, op, 0);
    return to(all, dtype, device);
  }
  Tensor out = tensor_from_value(L, value, dtype, device.value_or(own), op);
  if (source == nullptr) return out;
  GradModeGuard off(false);
  return out.storage().data() == source->storage().data() ? moonlet::clone(out) : detach(out);
}

// `tensor{1, 2}` is a value; `tensor{1, 2, dtype = ...}` a value with options in one table.
int l_tensor(lua_State* L) {
  const int top = lua_gettop(L);
  std::optional<DType> dtype;
  std::optional<Device> device;
  bool requires_grad = false;
  int value = 1;
  if (top == 1 && is_filled_table(L, 1)) {
    const char* const kNames[] = {"dtype", "device", "requires_grad"};
    lua_pushnil(L);
    while (lua_next(L, 1) != 0) {
      lua_pop(L, 1);
      if (is_item(L, -1, static_cast<lua_Integer>(lua_rawlen(L, 1)))) continue;
      check(lua_type(L, -1) == LUA_TSTRING, "tensor: an option's name must be a string, got ",
            type_name(L, -1));
      const std::string_view key = lua_tostring(L, -1);
      if (std::find(std::begin(kNames), std::end(kNames), key) == std::end(kNames))
        fail("tensor: unknown option '", key, "'", did_you_mean(key, kNames));
    }
    lua_createtable(L, 0, 3);
    for (const char* name : kNames) {
      lua_getfield(L, 1, name);
      lua_setfield(L, 2, name);
    }
  }
  check(top >= 1, "tensor: argument 'value' is missing; use: ", kTensorSignature.usage);
  if (top == 1 && lua_gettop(L) == 1) lua_createtable(L, 0, 0);
  ArgReader args(L, kTensorSignature);
  if (args.has(1)) dtype = args.dtype(1);
  if (args.has(2)) device = args.device(2);
  if (args.has(3)) requires_grad = args.boolean(3);
  Tensor out = made_tensor(L, value, dtype, device, kTensorName);
  if (requires_grad) set_requires_grad(out, true);
  return push_result(L, std::move(out));
}

constexpr ArgSpec kNewTensorArgs[] = {{"x", ArgType::Tensor},
                                      {"value", ArgType::Any},
                                      {"dtype", ArgType::DType, false, false, true},
                                      {"device", ArgType::Device, false, false, true},
                                      {"requires_grad", ArgType::Bool, false, false, true}};
constexpr char kNewTensorName[] = "new_tensor";
const Signature kNewTensorSignature = {kNewTensorName,
                                       "new_tensor(x, value, {dtype, device, requires_grad})",
                                       kNewTensorArgs, std::size(kNewTensorArgs)};

int l_new_tensor(lua_State* L) {
  // A table of items alone is the value, as for `tensor`.
  if (lua_gettop(L) == 2) lua_createtable(L, 0, 0);
  ArgReader args(L, kNewTensorSignature);
  const Tensor x = args.tensor(0);
  Tensor out = made_tensor(L, args.slot(1), args.has(2) ? args.dtype(2) : x.dtype(),
                           args.has(3) ? args.device(3) : x.device(), kNewTensorName);
  if (args.has(4) && args.boolean(4)) set_requires_grad(out, true);
  return push_result(L, std::move(out));
}

constexpr ArgSpec kStridedArgs[] = {{"size", ArgType::IntList},
                                    {"stride", ArgType::IntList},
                                    {"dtype", ArgType::DType, false, false, true},
                                    {"device", ArgType::Device, false, false, true},
                                    {"requires_grad", ArgType::Bool, false, false, true}};
constexpr char kStridedName[] = "empty_strided";
const Signature kStridedSignature = {kStridedName,
                                     "empty_strided(size, stride, {dtype, device, requires_grad})",
                                     kStridedArgs, std::size(kStridedArgs)};

// In memory that reaches to the last element.
int l_empty_strided(lua_State* L) {
  ArgReader args(L, kStridedSignature);
  const Dims size = args.ints(0), stride = args.ints(1);
  check(size.size() == stride.size(), kStridedName, ": ", size.size(), " sizes and ", stride.size(),
        " strides");
  const bool empty = numel_of(size, kStridedName) == 0;
  int64_t reach = empty ? 0 : 1;
  for (int d = 0; d < size.size(); ++d) {
    check(stride[d] >= 0, kStridedName, ": strides cannot be negative, got ", stride);
    if (empty) continue;
    const int64_t span = checked_mul(size[d] - 1, stride[d], kStridedName);
    reach = checked_add(reach, span, kStridedName);
  }
  const Tensor memory =
      shown_empty(empty_plain({reach}, args.options(2), kStridedName), kStridedName);
  Tensor out = alias(memory, size, stride, 0);
  if (args.has(4) && args.boolean(4)) set_requires_grad(out, true);
  return push_result(L, std::move(out));
}

Tensor on_host(const Tensor& x) {
  check(!x.device().is_batched(),
        "elements of a tensor inside vmap cannot be looked at one by one");
  program::note_values_read("a script");
  GradModeGuard off(false);
  Tensor host = detach(x);
  if (!host.device().is_cpu()) host = to(host, std::nullopt, Device{});
  return host.is_contiguous() ? host : contiguous(host);
}

Scalar element(const Tensor& host, int64_t i) {
  return visit<dtypes::any>(host.dtype(),
                            [&]<class T>() { return Scalar::of(host.elements<T>()[i]); });
}

constexpr char kItem[] = "item", kTotable[] = "totable", kTolist[] = "tolist";

int l_item(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "item");
  if (x.numel() != 1) fail("item: one element is expected, got shape ", x.sizes());
  program::note_values_read("item");
  collect_dropped(L);
  return push_result(L, element(on_host(x), 0));
}

int64_t push_nested(lua_State* L, const Tensor& host, int depth, int64_t at) {
  if (depth == host.dim()) {
    push_result(L, element(host, at));
    return at + 1;
  }
  luaL_checkstack(L, 4, "too many dimensions");
  const int64_t count = host.size(depth);
  lua_createtable(L, static_cast<int>(std::min<int64_t>(count, 1 << 24)), 0);
  for (int64_t i = 1; i <= count; ++i) {
    if (i % kStopBlock == 1) stop_if_requested();
    at = push_nested(L, host, depth + 1, at);
    lua_rawseti(L, -2, i);
  }
  return at;
}

int l_totable(lua_State* L) {
  program::note_values_read("tolist");
  collect_dropped(L);
  push_nested(L, on_host(check_tensor(L, 1, "totable")), 0, 0);
  return 1;
}

int l_is_tensor(lua_State* L) {
  lua_pushboolean(L, tensor_cell(L, 1) != nullptr);
  return 1;
}

}  // namespace

Tensor tensor_from_value(lua_State* L, int value, std::optional<DType> dtype, Device device,
                         const char* op) {
  if (const Tensor* cell = tensor_cell(L, value)) {
    check(cell->defined(), op, ": the tensor has been freed");
    if (!dtype && device == cell->device()) return *cell;
    return converted(*cell, dtype, device);
  }
  if (lua_type(L, value) == LUA_TTABLE) return from_table(L, value, dtype, device, op);
  const std::optional<Scalar> number = scalar_at(L, value);
  if (!number)
    fail(op, ": a number, a boolean, a table or a tensor is expected, got ", type_name(L, value));
  Tensor out = empty_plain({}, {dtype.value_or(number->default_dtype()), Device{}});
  GradModeGuard off(false);
  fill_(out, *number);
  return converted(out, std::nullopt, device);
}

void register_construct(lua_State* L) {
  static const luaL_Reg kModule[] = {{"tensor", op_guard<l_tensor, kTensorName>},
                                     {kStridedName, op_guard<l_empty_strided, kStridedName>},
                                     {"is_tensor", guard<l_is_tensor>},
                                     {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{kItem, op_guard<l_item, kItem>},
                                      {"new_tensor", op_guard<l_new_tensor, kNewTensorName>},
                                      {kTotable, op_guard<l_totable, kTotable>},
                                      {kTolist, op_guard<l_totable, kTolist>},
                                      {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
