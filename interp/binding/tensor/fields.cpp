// interp/binding/tensor/fields.cpp: what `x.name`, `x[i]` and their assignments do: methods first,
// then fields, then indexing, then an error that names the nearest name.
#include <cstring>
#include <iterator>

#include "autograd/history.h"
#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/held.h"
#include "interp/binding/op_functions.h"
#include "interp/binding/tensor/index.h"
#include "interp/binding/tensor/iterate.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/tensor/sparse_rows.h"
#include "interp/binding/uses_fields.h"
#include "interp/state/nearest.h"

namespace moonlet::binding {
namespace {

enum class Field : int {
  Shape,
  DType,
  Device,
  Grad,
  RequiresGrad,
  GradFn,
  IsLeaf,
  Ndim,
  Transposed,
  MatrixTransposed,
  Adjoint,
  MatrixAdjoint,
  Real,
  Imag,
  Data,
  IsCuda,
  IsSparse,
  RetainsGrad,
  Itemsize,
  Nbytes,
  Version
};

// In the order of Field.
constexpr const char* kFieldNames[] = {
    "shape",   "dtype",     "device",       "grad",     "requires_grad",
    "grad_fn", "is_leaf",   "ndim",         "T",        "mT",
    "H",       "mH",        "real",         "imag",     "data",
    "is_cuda", "is_sparse", "retains_grad", "itemsize", "nbytes",
    "_version"};
static_assert(std::size(kFieldNames) == static_cast<size_t>(Field::Version) + 1);

// The upvalues of l_index.
constexpr int kMethods = lua_upvalueindex(1);
constexpr int kFields = lua_upvalueindex(2);
constexpr int kGetters = lua_upvalueindex(3);

int push_getter(lua_State* L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, kGetters);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

int push_grad_fn(lua_State* L, const Tensor& x) {
  const NodeRef node = x.requires_grad() ? grad_fn_of(x) : NodeRef();
  if (node) return push_node(L, node);
  lua_pushnil(L);
  return 1;
}

int push_gradient(lua_State* L, const Tensor& x) {
  Gradient gradient = gradient_of(x);
  if (gradient.rows) return push_sparse_rows(L, std::move(gradient.rows));
  return push_result(L, std::move(gradient.dense));
}

int push_field(lua_State* L, const Tensor& x, Field field) {
  switch (field) {
    case Field::Shape: push_shape(L, x.sizes()); return 1;
    case Field::DType: return push_string(L, name(x.dtype()));
    case Field::Device: return push_string(L, name(x.device()));
    case Field::Grad: return push_gradient(L, x);
    case Field::RequiresGrad: return push_result(L, x.requires_grad());
    case Field::GradFn: return push_grad_fn(L, x);
    case Field::IsLeaf: return push_result(L, is_leaf(x));
    case Field::Ndim: return push_result(L, static_cast<int64_t>(x.dim()));
    case Field::Transposed:
      check(x.dim() == 2, "T: a tensor of 2 dimensions is expected, got shape ", x.sizes());
      return push_result(L, transpose(x, 0, 1));
    case Field::MatrixTransposed:
      check(x.dim() >= 2, "mT: a tensor of at least 2 dimensions is expected, got shape ",
            x.sizes());
      return push_result(L, transpose(x, -2, -1));
    case Field::Adjoint:
      check(x.dim() == 2, "H: a tensor of 2 dimensions is expected, got shape ", x.sizes());
      return push_result(L, adjoint(x));
    case Field::MatrixAdjoint:
      check(x.dim() >= 2, "mH: a tensor of at least 2 dimensions is expected, got shape ",
            x.sizes());
      return push_result(L, adjoint(x));
    case Field::RetainsGrad: return push_result(L, retains_grad(x));
    case Field::Real:
    case Field::Imag: return push_getter(L);
    case Field::Data: return push_result(L, detach(x));
    case Field::IsCuda:
      return push_result(L, x.device().real().type == device_type_from_name("cuda"));
    case Field::IsSparse: return push_result(L, false);
    case Field::Itemsize: return push_result(L, static_cast<int64_t>(size_of(x.dtype())));
    case Field::Nbytes: return push_result(L, static_cast<int64_t>(x.numel() * size_of(x.dtype())));
    case Field::Version: return push_result(L, static_cast<int64_t>(x.storage().version()));
  }
  return 0;
}

int push_part(lua_State* L, const Tensor& x) {
  if (!lua_isinteger(L, 2))
    return push_result(L, named("index", [&] { return read_index(L, x, 2); }));
  const lua_Integer i = lua_tointeger(L, 2);
  const bool behind = x.dim() > 0 && i == x.size(0) + 1;
  if (behind && called_by_ipairs(L)) return 0;
  return push_result(L, named("index", [&] { return part_at(x, i); }));
}

[[noreturn]] void unknown_field(lua_State* L, std::string_view key) {
  add_op_functions(L, OpTable::Methods, kMethods);
  unknown_member(L, "Tensor", key, kFieldNames, kMethods);
}

int l_index(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return push_part(L, check_tensor(L, 1, "index"));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, kMethods) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  const Tensor& x = check_tensor(L, 1, lua_tostring(L, 2));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, kFields) != LUA_TNIL)
    return push_field(L, x, static_cast<Field>(lua_tointeger(L, -1)));
  lua_pop(L, 1);
  if (push_op_function(L, OpTable::Methods, kMethods, 2)) return 1;
  size_t length = 0;
  const char* key = lua_tolstring(L, 2, &length);
  if (!is_index_text({key, length})) unknown_field(L, {key, length});
  return push_result(L, read_index(L, x, 2));
}

void assign_gradient(lua_State* L, Tensor& x) {
  if (const std::shared_ptr<SharedRows> rows = sparse_rows_at(L, 3)) {
    set_sparse_grad(x, rows);
    return;
  }
  set_grad(x, lua_isnil(L, 3) ? Tensor() : check_tensor(L, 3, "grad"));
  note_seen(L, 3);
}

void assign_field(lua_State* L, Tensor& x, std::string_view key) {
  if (key == "requires_grad") {
    check(lua_isboolean(L, 3), "requires_grad: true or false is expected, got ", type_name(L, 3));
    set_requires_grad(x, lua_toboolean(L, 3) != 0);
  } else if (key == "grad") {
    assign_gradient(L, x);
  } else if (key == "data") {
    set_data(x, check_tensor(L, 3, "data"));
  } else if (key == "real" || key == "imag") {
    Tensor part = key == "real" ? moonlet::real(x) : moonlet::imag(x);
    copy_(part, tensor_from_value(L, 3, std::nullopt, x.device(), key == "real" ? "real" : "imag"));
  } else if (is_field(std::string(key).c_str())) {
    fail("Tensor: field '", key, "' cannot be assigned");
  } else {
    unknown_field(L, key);
  }
}

int l_newindex(lua_State* L) {
  Tensor& x = check_tensor(L, 1, "index");
  if (lua_type(L, 2) == LUA_TSTRING) {
    size_t length = 0;
    const char* key = lua_tolstring(L, 2, &length);
    if (!is_index_text({key, length})) {
      assign_field(L, x, {key, length});
      return 0;
    }
  }
  named("index", [&] { assign_index(L, x, 2, 3); });
  return 0;
}

}  // namespace

bool is_field(const char* name) {
  for (const char* field : kFieldNames)
    if (std::strcmp(field, name) == 0) return true;
  return false;
}

void register_fields(lua_State* L) {
  const int metatable = lua_absindex(L, -2);
  lua_pushvalue(L, -1);  // methods
  lua_createtable(L, 0, 2 * static_cast<int>(std::size(kFieldNames)));
  for (size_t i = 0; i < std::size(kFieldNames); ++i) {
    lua_pushinteger(L, static_cast<lua_Integer>(i));
    lua_setfield(L, -2, kFieldNames[i]);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, metatable - 1, "_fields");  // of the module, for the prompt
  lua_createtable(L, 0, 2);                   // the ops that are read like fields
  const int getters = lua_gettop(L);
  for (const char* field : kFieldNames) {
    lua_pushstring(L, field);
    push_op_function(L, OpTable::Fields, getters, getters + 1);
    lua_settop(L, getters);
  }
  lua_pushcclosure(L, op_guard<l_index>, 3);
  lua_setfield(L, metatable, "__index");
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, op_guard<l_newindex>, 1);
  lua_setfield(L, metatable, "__newindex");
}

}  // namespace moonlet::binding
