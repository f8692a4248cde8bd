// interp/binding/tensor/sparse_rows.cpp: sparse gradients in scripts: their methods and fields.
// They are no tensors; what takes tensors refuses them.
#include "interp/binding/tensor/sparse_rows.h"

#include <iterator>
#include <new>

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/uses_sparse_rows.h"
#include "interp/state/nearest.h"
#include "tensor/core/dispatch.h"

namespace moonlet::binding {
namespace {

// What errors call the type, in the texts of ops too: "add: ... got SparseRows (...)".
constexpr const char* kTypeName = "SparseRows (g:to_dense() gives a tensor)";
constexpr const char* kName = "SparseRows";
constexpr char kMetatable = 0;  // its address is the key of the metatable in the registry

struct RowsCell {
  std::shared_ptr<SharedRows> rows;
  uint64_t unused[2] = {};
};
static_assert(sizeof(RowsCell) != sizeof(TensorCell));

RowsCell* rows_cell(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_getmetatable(L, index) == 0) return nullptr;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kMetatable);
  const bool same = lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return same ? static_cast<RowsCell*>(lua_touserdata(L, index)) : nullptr;
}

SharedRows& check_rows(lua_State* L, const char* op) {
  const RowsCell* cell = rows_cell(L, 1);
  check(cell != nullptr && cell->rows, op, ": a sparse gradient is expected, got ",
        type_name(L, 1));
  return *cell->rows;
}

int push_rows(lua_State* L, SparseRows rows) {
  return push_sparse_rows(L, std::make_shared<SharedRows>(std::move(rows)));
}

// --- fields ------------------------------------------------------------------------------------

enum class Field : int { Shape, DType, Device, Ndim, IsSparse, IsCuda, RequiresGrad };

// In the order of Field.
constexpr const char* kFieldNames[] = {"shape",     "dtype",   "device",       "ndim",
                                       "is_sparse", "is_cuda", "requires_grad"};
static_assert(std::size(kFieldNames) == static_cast<size_t>(Field::RequiresGrad) + 1);

int push_field(lua_State* L, const SparseRows& rows, Field field) {
  switch (field) {
    case Field::Shape: push_shape(L, rows.sizes); return 1;
    case Field::DType: return push_string(L, name(rows.values.dtype()));
    case Field::Device: return push_string(L, name(rows.values.device()));
    case Field::Ndim: return push_result(L, static_cast<int64_t>(rows.sizes.size()));
    case Field::IsSparse: return push_result(L, true);
    case Field::IsCuda:
      return push_result(L, rows.values.device().real().type == device_type_from_name("cuda"));
    case Field::RequiresGrad: return push_result(L, false);
  }
  return 0;
}

// Upvalues: the methods and the fields.
int l_index(lua_State* L) {
  const SharedRows& shared = check_rows(L, "index");
  check(lua_type(L, 2) == LUA_TSTRING, "index: ", kName,
        " have no elements by position; g:to_dense() gives a tensor that has");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
    return push_field(L, shared.get(), static_cast<Field>(lua_tointeger(L, -1)));
  fail(kName, " has no field or method '", lua_tostring(L, 2), "'",
       did_you_mean(lua_tostring(L, 2), kFieldNames),
       "; g:to_dense() gives a tensor, which has all");
}

int l_newindex(lua_State* L) {
  check_rows(L, "index");
  fail(kName, ": nothing of a sparse gradient can be assigned; g:values() is a tensor");
}

// --- methods -----------------------------------------------------------------------------------

int l_indices(lua_State* L) {
  const SparseRows rows = check_rows(L, "indices").get();
  return push_result(L, unsqueeze(clone(rows.positions), 0));
}

// Another tensor on their memory, so that its shape can change alone.
int l_values(lua_State* L) { return push_result(L, detach(check_rows(L, "values").get().values)); }

int l_nnz(lua_State* L) { return push_result(L, check_rows(L, "_nnz").get().positions.numel()); }

int l_to_dense(lua_State* L) { return push_result(L, check_rows(L, "to_dense").get().to_dense()); }

int l_coalesce(lua_State* L) {
  SparseRows rows = check_rows(L, "coalesce").get();
  if (!rows.coalesced) return push_rows(L, rows.coalesce());
  lua_settop(L, 1);
  return 1;
}

int l_is_coalesced(lua_State* L) {
  return push_result(L, check_rows(L, "is_coalesced").get().coalesced);
}

int l_size(lua_State* L) {
  const Dims sizes = check_rows(L, "size").get().sizes;
  if (lua_isnoneornil(L, 2)) {
    push_shape(L, sizes);
    return 1;
  }
  const int64_t dim = integer_argument(L, 2, "size", "argument 'dim'");
  const int64_t position = dim > 0 ? dim - 1 : sizes.size() + dim;
  check(dim != 0 && position >= 0 && position < sizes.size(), "size: dimension ", dim,
        " is out of range; there are ", sizes.size(), ", counted from 1");
  return push_result(L, sizes[static_cast<int>(position)]);
}

int l_dim(lua_State* L) {
  return push_result(L, static_cast<int64_t>(check_rows(L, "dim").get().sizes.size()));
}

int l_numel(lua_State* L) {
  const Dims sizes = check_rows(L, "numel").get().sizes;
  return push_result(L, sizes[0] * sizes[1]);
}

int l_sparse_dim(lua_State* L) {
  check_rows(L, "sparse_dim");
  return push_result(L, int64_t{1});
}

int l_dense_dim(lua_State* L) {
  check_rows(L, "dense_dim");
  return push_result(L, int64_t{1});
}

int l_clone(lua_State* L) { return push_rows(L, check_rows(L, "clone").get().clone()); }

int l_detach(lua_State* L) { return push_rows(L, check_rows(L, "detach").get()); }

// By a number, or a tensor of one.
int l_mul_in_place(lua_State* L) {
  Tensor values = check_rows(L, "mul_").get().values;
  if (const Tensor* factor = tensor_cell(L, 2)) {
    check(factor->defined() && factor->numel() == 1,
          "mul_: a sparse gradient is multiplied by a number or a tensor of one element");
    mul_(values, view(*factor, Dims{}));
  } else {
    const std::optional<Scalar> number = scalar_at(L, 2);
    check(number.has_value(), "mul_: a number or a tensor of one element is expected, got ",
          type_name(L, 2));
    mul_(values, *number);
  }
  lua_settop(L, 1);
  return 1;
}

// Forgets all rows.
int l_zero_in_place(lua_State* L) {
  SharedRows& shared = check_rows(L, "zero_");
  const SparseRows rows = shared.get();
  const NoGrad no_grad;
  shared.set({clone(narrow(rows.positions, 0, 0, 0)), clone(narrow(rows.values, 0, 0, 0)),
              rows.sizes, true});
  lua_settop(L, 1);
  return 1;
}

// The values go where their own `to` brings them, with all forms of its arguments.
int l_to(lua_State* L) {
  const SparseRows rows = check_rows(L, "to").get();
  const int top = lua_gettop(L);
  luaL_checkstack(L, top + 4, "too many arguments");
  push_tensor(L, rows.values);
  lua_getfield(L, -1, "to");
  lua_insert(L, -2);
  for (int i = 2; i <= top; ++i) lua_pushvalue(L, i);
  lua_call(L, top, 1);
  const Tensor values = check_tensor(L, -1, "to");
  return push_rows(
      L, {to(rows.positions, std::nullopt, values.device()), values, rows.sizes, rows.coalesced});
}

// --- the type ----------------------------------------------------------------------------------

int l_gc(lua_State* L) {
  if (RowsCell* cell = rows_cell(L, 1)) cell->rows.reset();
  return 0;
}

int l_equal(lua_State* L) {
  const RowsCell* a = rows_cell(L, 1);
  const RowsCell* b = rows_cell(L, 2);
  return push_result(L, a != nullptr && b != nullptr && a->rows == b->rows);
}

int l_tostring(lua_State* L) {
  const SparseRows rows = check_rows(L, "tostring").get();
  const PrintOptions& print = binding_state(L).print;
  const int64_t n = rows.positions.numel();
  std::string out = "indices ";
  append(out, format_elements(rows.positions, print));
  append(out, "\nvalues\n");
  append(out, format_elements(rows.values, print));
  append(out, text("\n", kName, " ", rows.sizes, " ", rows.values.dtype(), ", ", n,
                   n == 1 ? " row" : " rows", rows.coalesced ? ", coalesced" : ""));
  if (!rows.values.device().is_cpu()) append(out, text(" ", rows.values.device()));
  return push_string(L, out);
}

constexpr luaL_Reg kMethods[] = {{"indices", op_guard<l_indices>},
                                 {"_indices", op_guard<l_indices>},
                                 {"values", guard<l_values>},
                                 {"_values", guard<l_values>},
                                 {"_nnz", guard<l_nnz>},
                                 {"to_dense", op_guard<l_to_dense>},
                                 {"coalesce", op_guard<l_coalesce>},
                                 {"is_coalesced", guard<l_is_coalesced>},
                                 {"size", guard<l_size>},
                                 {"dim", guard<l_dim>},
                                 {"numel", guard<l_numel>},
                                 {"sparse_dim", guard<l_sparse_dim>},
                                 {"dense_dim", guard<l_dense_dim>},
                                 {"clone", op_guard<l_clone>},
                                 {"detach", guard<l_detach>},
                                 {"mul_", op_guard<l_mul_in_place>},
                                 {"zero_", op_guard<l_zero_in_place>},
                                 {"to", op_guard<l_to>},
                                 {nullptr, nullptr}};

}  // namespace

std::shared_ptr<SharedRows> sparse_rows_at(lua_State* L, int index) {
  const RowsCell* cell = rows_cell(L, index);
  return cell != nullptr ? cell->rows : nullptr;
}

int push_sparse_rows(lua_State* L, std::shared_ptr<SharedRows> rows) {
  pay_collector(L, binding_state(L));
  luaL_checkstack(L, 3, "too many results");
  new (lua_newuserdatauv(L, sizeof(RowsCell), 0)) RowsCell{std::move(rows)};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kMetatable);
  lua_setmetatable(L, -2);
  return 1;
}

void register_sparse_rows(lua_State* L) {
  static const luaL_Reg kMetamethods[] = {{"__gc", guard<l_gc>},
                                          {"__close", guard<l_gc>},
                                          {"__eq", guard<l_equal>},
                                          {"__newindex", guard<l_newindex>},
                                          {"__tostring", op_guard<l_tostring>},
                                          {nullptr, nullptr}};
  luaL_newlib(L, kMetamethods);
  luaL_newlib(L, kMethods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -5, "_sparse_methods");
  lua_createtable(L, 0, static_cast<int>(std::size(kFieldNames)));
  for (size_t i = 0; i < std::size(kFieldNames); ++i) {
    lua_pushinteger(L, static_cast<lua_Integer>(i));
    lua_setfield(L, -2, kFieldNames[i]);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, -6, "_sparse_fields");
  lua_pushcclosure(L, op_guard<l_index>, 2);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, kTypeName);
  lua_setfield(L, -2, "__name");
  // Scripts cannot reach the metatable, so none can break the type check.
  lua_pushstring(L, kName);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kMetatable);
}

}  // namespace moonlet::binding
