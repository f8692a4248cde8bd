// interp/binding/tensor/methods.cpp: methods of tensors that are no ops: geometry, storage,
// release, shorthand conversions.
#include "autograd/forward_mode.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/tensor/storage.h"
#include "interp/binding/uses_methods.h"
#include "tensor/core/set.h"
#include "tensor/core/views.h"
#include "tensor/program/captured_call.h"
#include "tensor/runtime/streams.h"

namespace moonlet::binding {
namespace {

constexpr ArgSpec kOnlyTensor[] = {{"x", ArgType::Tensor}};
constexpr ArgSpec kTensorDim[] = {{"x", ArgType::Tensor}, {"dim", ArgType::Dim, false}};

int l_free(lua_State* L) {
  Tensor* cell = tensor_cell(L, 1);
  check(cell != nullptr, "free: a tensor is expected, got ", type_name(L, 1));
  *cell = Tensor();
  return 0;
}

int l_size(lua_State* L) {
  static const Signature kSignature = {"size", "size(x, dim=nil)", kTensorDim,
                                       std::size(kTensorDim)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  if (args.has(1)) return push_result(L, x.size(wrap_dim(args.dim(1), x.dim(), "size")));
  push_shape(L, x.sizes());
  return 1;
}

int l_stride(lua_State* L) {
  static const Signature kSignature = {"stride", "stride(x, dim=nil)", kTensorDim,
                                       std::size(kTensorDim)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  if (args.has(1)) return push_result(L, x.stride(wrap_dim(args.dim(1), x.dim(), "stride")));
  push_shape(L, x.strides());
  return 1;
}

int l_dim(lua_State* L) {
  return push_result(L, static_cast<int64_t>(check_tensor(L, 1, "dim").dim()));
}

int l_numel(lua_State* L) { return push_result(L, check_tensor(L, 1, "numel").numel()); }

int l_is_contiguous(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor},
                                      {"memory_format", ArgType::MemoryFormat, false}};
  static const Signature kSignature = {"is_contiguous", "is_contiguous(x, memory_format=nil)",
                                       kArgs, std::size(kArgs)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  if (!args.has(1)) return push_result(L, x.is_contiguous());
  const MemoryFormat format = args.memory_format(1);
  check(format != MemoryFormat::Preserve,
        "is_contiguous: memory_format \"preserve_format\" is no order of elements");
  return push_result(L, is_contiguous(x.sizes(), x.strides(), format));
}

int l_storage_offset(lua_State* L) {
  return push_result(L, check_tensor(L, 1, "storage_offset").offset());
}

// For methods that name memory.
const Tensor& tensor_with_memory(lua_State* L, const char* op) {
  const Tensor& x = check_tensor(L, 1, op);
  check(!x.device().is_batched(), op, ": a tensor inside vmap has no memory of its own");
  program::note_values_read(op);
  return x;
}

int l_storage(lua_State* L) {
  return push_storage(L, TypedStorage(tensor_with_memory(L, "storage")));
}

int l_data_ptr(lua_State* L) {
  return push_result(
      L, static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor_with_memory(L, "data_ptr").raw())));
}

// Whole storages, parts of them, tensors, or nothing at all, which leaves x without elements.
int l_set(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor},
                                      {"source", ArgType::Any, false},
                                      {"offset", ArgType::Int, false},
                                      {"size", ArgType::IntList, false},
                                      {"stride", ArgType::IntList, false}};
  static const Signature kSignature = {"set_",
                                       "set_(x, storage or tensor, offset=0, size=nil, stride=nil)",
                                       kArgs, std::size(kArgs)};
  ArgReader args(L, kSignature);
  // Reading lists may run metamethods, which can free anything: they come before the handles.
  Dims size, stride;
  if (args.has(3)) size = args.ints(3);
  if (args.has(4)) stride = args.ints(4);
  Tensor& x = check_tensor(L, args.slot(0), "set_");
  if (args.has(1) && tensor_cell(L, args.slot(1)) != nullptr) {
    check(!args.has(2) && !args.has(3) && !args.has(4),
          "set_: a tensor brings its own offset, size and stride; give its storage to choose them");
    const Tensor source = check_tensor(L, args.slot(1), "set_");
    set_(x, TypedStorage(source), source.offset(), source.sizes(), source.strides());
  } else {
    const TypedStorage s =
        args.has(1) ? check_storage(L, args.slot(1), "set_") : TypedStorage(0, options_of(x));
    const int64_t offset = args.has(2) ? args.integer(2) : 0;
    check(offset >= 0 && offset <= s.size(), "set_: offset ", offset, " is outside a storage of ",
          s.size(), " elements");
    check(args.has(3) || !args.has(4), "set_: stride is given without size");
    if (!args.has(3)) size = {s.size() - offset};
    if (!args.has(4)) stride = contiguous_strides(size);
    set_(x, s, offset, size, stride);
  }
  lua_settop(L, 1);
  return 1;
}

// The tape is forgotten when a tensor gets other memory or another shape, and tangents with it.
void refuse_tangents(const Tensor& x, const char* op) {
  check(tangents_of(x) == nullptr, op,
        ": a tensor with a tangent cannot be given another shape in place");
}

int l_resize(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor},
                                      {"size", ArgType::IntList, true, true}};
  static const Signature kSignature = {"resize_", "resize_(x, size)", kArgs, std::size(kArgs)};
  ArgReader args(L, kSignature);
  const Dims size = args.ints(1);
  Tensor& x = check_tensor(L, args.slot(0), "resize_");
  refuse_tangents(x, "resize_");
  resize_(x, size);
  lua_settop(L, 1);
  return 1;
}

int l_resize_as(lua_State* L) {
  Tensor& x = check_tensor(L, 1, "resize_as_");
  refuse_tangents(x, "resize_as_");
  resize_as_(x, check_tensor(L, 2, "resize_as_"));
  lua_settop(L, 1);
  return 1;
}

int l_element_size(lua_State* L) {
  return push_result(L, static_cast<int64_t>(size_of(check_tensor(L, 1, "element_size").dtype())));
}

// The number of the device, -1 on the CPU.
int l_get_device(lua_State* L) {
  const Device device = check_tensor(L, 1, "get_device").device().real();
  return push_result(L, device.is_cpu() ? int64_t{-1} : static_cast<int64_t>(device.index));
}

// The dimensions from the outermost in memory to the innermost.
int l_dim_order(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "dim_order");
  const Dims order = views::memory_order(x);
  lua_createtable(L, order.size(), 0);
  for (int i = 0; i < order.size(); ++i) {
    lua_pushinteger(L, order[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

// The name of the dtype; with a dtype the tensor as that.
int l_type(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor}, {"dtype", ArgType::DType, false}};
  static const Signature kSignature = {"type", "type(x, dtype=nil)", kArgs, std::size(kArgs)};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  if (!args.has(1)) return push_string(L, name(x.dtype()));
  return push_result(L, to(x, args.dtype(1)));
}

// What the standard library's ml.describe says of it.
int l_describe(lua_State* L) {
  check_tensor(L, 1, "describe");
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).module_ref);
  lua_getfield(L, -1, "describe");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

// Whether two tensors are the same elements of one storage.
int l_is_set_to(lua_State* L) {
  const Tensor& a = check_tensor(L, 1, "is_set_to");
  const Tensor& b = check_tensor(L, 2, "is_set_to");
  return push_result(L, &a.storage() == &b.storage() && a.dtype() == b.dtype() &&
                            a.offset() == b.offset() && a.sizes() == b.sizes() &&
                            a.strides() == b.strides());
}

// The receiver is what is chosen where the condition holds, while ml.where has that first.
int l_where(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {
      {"x", ArgType::Tensor}, {"condition", ArgType::Tensor}, {"other", ArgType::Operand}};
  static const Signature kSignature = {"where", "x:where(condition, other)", kArgs,
                                       std::size(kArgs)};
  ArgReader args(L, kSignature);
  return push_result(L, moonlet::where(args.tensor(1), args.tensor(0), args.operand(2)));
}

int l_zero(lua_State* L) {
  fill_(check_tensor(L, 1, "zero_"), 0.0);
  lua_settop(L, 1);
  return 1;
}

constexpr char kZero[] = "zero_", kBool[] = "bool", kInt[] = "int", kLong[] = "long",
               kHalf[] = "half", kBFloat16[] = "bfloat16", kFloat[] = "float", kDouble[] = "double";

template <DType dtype, const char* method>
int l_convert(lua_State* L) {
  static const std::string usage = text("x:", method, "() without arguments");
  static const Signature kSignature = {method, usage.c_str(), kOnlyTensor, std::size(kOnlyTensor)};
  ArgReader args(L, kSignature);
  return push_result(L, moonlet::to(args.tensor(0), dtype, std::nullopt));
}

int l_cpu(lua_State* L) {
  static const Signature kSignature = {"cpu", "cpu(x)", kOnlyTensor, std::size(kOnlyTensor)};
  ArgReader args(L, kSignature);
  return push_result(L, to(args.tensor(0), std::nullopt, Device{}));
}

int l_cuda(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor},
                                      {"device", ArgType::Int, false},
                                      {"non_blocking", ArgType::Bool, false}};
  static const Signature kSignature = {"cuda", "cuda(x, device=nil, non_blocking=false)", kArgs,
                                       std::size(kArgs)};
  ArgReader args(L, kSignature);
  Device device = device_from_name(kSignature.op);
  const int64_t index = args.has(1) ? args.integer(1) : device.index;
  check(index >= 0 && index < 100, kSignature.op, ": there is no device ", index);
  device.index = static_cast<int8_t>(index);
  return push_result(L, to(args.tensor(0), std::nullopt, device, std::nullopt, false,
                           args.has(2) && args.boolean(2)));
}

}  // namespace

void register_methods(lua_State* L) {
  static const luaL_Reg kMethods[] = {
      {"free", guard<l_free>},
      {"size", guard<l_size>},
      {"stride", guard<l_stride>},
      {"dim", guard<l_dim>},
      {"numel", guard<l_numel>},
      {"is_contiguous", guard<l_is_contiguous>},
      {"storage_offset", guard<l_storage_offset>},
      {"storage", guard<l_storage>},
      {"data_ptr", guard<l_data_ptr>},
      {"set_", op_guard<l_set>},
      {"resize_", op_guard<l_resize>},
      {"resize_as_", op_guard<l_resize_as>},
      {"element_size", guard<l_element_size>},
      {"get_device", guard<l_get_device>},
      {"dim_order", guard<l_dim_order>},
      {"type", op_guard<l_type>},
      {"describe", guard<l_describe>},
      {"is_set_to", guard<l_is_set_to>},
      {"where", op_guard<l_where>},
      {"zero_", op_guard<l_zero, kZero>},
      {"bool", op_guard<l_convert<DType::Bool, kBool>, kBool>},
      {"int", op_guard<l_convert<DType::Int32, kInt>, kInt>},
      {"long", op_guard<l_convert<DType::Int64, kLong>, kLong>},
      {"half", op_guard<l_convert<DType::Float16, kHalf>, kHalf>},
      {"bfloat16", op_guard<l_convert<DType::BFloat16, kBFloat16>, kBFloat16>},
      {"float", op_guard<l_convert<DType::Float32, kFloat>, kFloat>},
      {"double", op_guard<l_convert<DType::Float64, kDouble>, kDouble>},
      {"cpu", op_guard<l_cpu>},
      {"cuda", op_guard<l_cuda>},
      {nullptr, nullptr}};
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
