// interp/binding/tensor/dtypes.cpp: what scripts ask of dtypes: promotion, casts, limits, kinds.
#include <cmath>
#include <limits>

#include "interp/binding/arg_reader.h"
#include "tensor/runtime/execution.h"

namespace moonlet::binding {
namespace {

constexpr ArgSpec kTwoDTypes[] = {{"type1", ArgType::DType}, {"type2", ArgType::DType}};
constexpr ArgSpec kFromTo[] = {{"from", ArgType::DType}, {"to", ArgType::DType}};
constexpr ArgSpec kTwoOperands[] = {{"tensor1", ArgType::Operand}, {"tensor2", ArgType::Operand}};
constexpr ArgSpec kMaybeDType[] = {{"dtype", ArgType::DType, false}};
constexpr ArgSpec kOneDType[] = {{"dtype", ArgType::DType}};

int l_promote_types(lua_State* L) {
  static const Signature kSignature = {"promote_types", "promote_types(type1, type2)", kTwoDTypes,
                                       std::size(kTwoDTypes)};
  ArgReader args(L, kSignature);
  return push_string(L, name(promote(args.dtype(0), args.dtype(1))));
}

int l_result_type(lua_State* L) {
  static const Signature kSignature = {"result_type", "result_type(tensor1, tensor2)", kTwoOperands,
                                       std::size(kTwoOperands)};
  ArgReader args(L, kSignature);
  const Operand a = args.operand(0), b = args.operand(1);
  return push_string(L, name(result_type(a, b)));
}

int l_can_cast(lua_State* L) {
  static const Signature kSignature = {"can_cast", "can_cast(from, to)", kFromTo,
                                       std::size(kFromTo)};
  ArgReader args(L, kSignature);
  return push_result(L, can_cast(args.dtype(0), args.dtype(1)));
}

template <class T>
void set_field(lua_State* L, const char* field, T value) {
  push_result(L, value);
  lua_setfield(L, -2, field);
}

void set_dtype(lua_State* L, DType dtype) {
  set_field(L, "bits", static_cast<int64_t>(8 * size_of(dtype)));
  push_string(L, name(dtype));
  lua_setfield(L, -2, "dtype");
}

int l_finfo(lua_State* L) {
  static const Signature kSignature = {"finfo", "finfo(dtype=nil)", kMaybeDType,
                                       std::size(kMaybeDType)};
  ArgReader args(L, kSignature);
  const DType given = args.has(0) ? args.dtype(0) : execution.default_dtype;
  const DType dtype = real_of(given);
  check(is_floating(dtype), "finfo: dtype ", given, " is no floating one; iinfo is for integers");
  lua_createtable(L, 0, 8);
  set_dtype(L, dtype);
  set_field(L, "eps", epsilon(dtype));
  set_field(L, "max", largest(dtype));
  set_field(L, "min", -largest(dtype));
  set_field(L, "tiny", smallest_normal(dtype));
  set_field(L, "smallest_normal", smallest_normal(dtype));
  // Of so many decimal digits each number is kept.
  const int digits = static_cast<int>(mantissa_bits(dtype) * std::log10(2.0));
  set_field(L, "resolution", 1 / std::pow(10.0, digits));
  return 1;
}

int l_iinfo(lua_State* L) {
  static const Signature kSignature = {"iinfo", "iinfo(dtype)", kOneDType, std::size(kOneDType)};
  ArgReader args(L, kSignature);
  const DType dtype = args.dtype(0);
  check(is_integral(dtype), "iinfo: dtype ", dtype, " is no integer one; finfo is for floats");
  lua_createtable(L, 0, 4);
  set_dtype(L, dtype);
  push_result(L, Scalar::of(largest_integer(dtype)));
  lua_setfield(L, -2, "max");
  push_result(L, smallest_integer(dtype));
  lua_setfield(L, -2, "min");
  return 1;
}

// The dtype of a tensor, or the dtype itself.
DType dtype_at(lua_State* L, const char* op) {
  if (lua_type(L, 1) == LUA_TSTRING) return dtype_from_name(lua_tostring(L, 1));
  return check_tensor(L, 1, op).dtype();
}

int l_is_floating_point(lua_State* L) {
  return push_result(L, is_floating(dtype_at(L, "is_floating_point")));
}

int l_is_complex(lua_State* L) { return push_result(L, is_complex(dtype_at(L, "is_complex"))); }

int l_is_signed(lua_State* L) {
  const Kind kind = kind_of(dtype_at(L, "is_signed"));
  return push_result(L, kind != Kind::Bool && kind != Kind::Unsigned);
}

}  // namespace

void register_dtypes(lua_State* L) {
  static const luaL_Reg kModule[] = {{"promote_types", guard<l_promote_types>},
                                     {"result_type", guard<l_result_type>},
                                     {"can_cast", guard<l_can_cast>},
                                     {"finfo", guard<l_finfo>},
                                     {"iinfo", guard<l_iinfo>},
                                     {nullptr, nullptr}};
  static const luaL_Reg kBoth[] = {{"is_floating_point", guard<l_is_floating_point>},
                                   {"is_complex", guard<l_is_complex>},
                                   {"is_signed", guard<l_is_signed>},
                                   {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -2, kBoth);
  set_functions(L, -1, kBoth);
}

}  // namespace moonlet::binding
