// interp/binding/methods.cpp: methods of tensors that are no ops: geometry, release, shorthand
// conversions.
#include "autograd/ops.h"
#include "interp/binding/args.h"

namespace moonlet::binding {
namespace {

constexpr ArgSpec kOnlyTensor[] = {{"x", ArgType::Tensor}};
constexpr ArgSpec kTensorDim[] = {{"x", ArgType::Tensor}, {"dim", ArgType::Dim, false}};

int l_free(lua_State* L) {
  Tensor* cell = tensor_cell(L, 1);
  check(cell != nullptr, "free: a tensor is wanted, got ", type_name(L, 1));
  *cell = Tensor();
  return 0;
}

int l_size(lua_State* L) {
  static const Signature kSignature = {"size", "size(x, dim=nil)", kTensorDim, 2};
  ArgReader args(L, kSignature);
  const Tensor& x = args.tensor(0);
  if (args.has(1)) return push_result(L, x.size(wrap_dim(args.dim(1), x.dim(), "size")));
  push_shape(L, x.sizes());
  return 1;
}

int l_stride(lua_State* L) {
  static const Signature kSignature = {"stride", "stride(x, dim=nil)", kTensorDim, 2};
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
                                       kArgs, 2};
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

int l_is_floating_point(lua_State* L) {
  return push_result(L, is_floating(check_tensor(L, 1, "is_floating_point").dtype()));
}

int l_is_complex(lua_State* L) {
  return push_result(L, is_complex(check_tensor(L, 1, "is_complex").dtype()));
}

// Whether two tensors read the same memory, as views of each other do.
int l_is_set_to(lua_State* L) {
  const Tensor& a = check_tensor(L, 1, "is_set_to");
  const Tensor& b = check_tensor(L, 2, "is_set_to");
  return push_result(L, &a.storage() == &b.storage() && a.offset() == b.offset() &&
                            a.sizes() == b.sizes() && a.strides() == b.strides());
}

int l_zero(lua_State* L) {
  fill_(check_tensor(L, 1, "zero_"), 0.0);
  lua_settop(L, 1);
  return 1;
}

template <DType dtype>
int l_convert(lua_State* L) {
  static const Signature kSignature = {name(dtype).data(), "x:NAME() without arguments",
                                       kOnlyTensor, 1};
  ArgReader args(L, kSignature);
  return push_result(L, moonlet::to(args.tensor(0), dtype, std::nullopt));
}

int l_cpu(lua_State* L) {
  static const Signature kSignature = {"cpu", "cpu(x)", kOnlyTensor, 1};
  ArgReader args(L, kSignature);
  return push_result(L, to(args.tensor(0), std::nullopt, Device{}));
}

int l_cuda(lua_State* L) {
  static constexpr ArgSpec kArgs[] = {{"x", ArgType::Tensor}, {"device", ArgType::Int, false}};
  static const Signature kSignature = {"cuda", "cuda(x, device=0)", kArgs, 2};
  ArgReader args(L, kSignature);
  const int64_t index = args.has(1) ? args.integer(1) : 0;
  check(index >= 0 && index < 100, "cuda: there is no device ", index);
  return push_result(
      L, to(args.tensor(0), std::nullopt, Device{DeviceType::CUDA, static_cast<int8_t>(index)}));
}

}  // namespace

void register_methods(lua_State* L) {
  static const luaL_Reg kMethods[] = {{"free", guard<l_free>},
                                      {"size", guard<l_size>},
                                      {"stride", guard<l_stride>},
                                      {"dim", guard<l_dim>},
                                      {"numel", guard<l_numel>},
                                      {"is_contiguous", guard<l_is_contiguous>},
                                      {"storage_offset", guard<l_storage_offset>},
                                      {"is_floating_point", guard<l_is_floating_point>},
                                      {"is_complex", guard<l_is_complex>},
                                      {"is_set_to", guard<l_is_set_to>},
                                      {"zero_", op_guard<l_zero>},
                                      {"bool", op_guard<l_convert<DType::Bool>>},
                                      {"int", op_guard<l_convert<DType::Int32>>},
                                      {"long", op_guard<l_convert<DType::Int64>>},
                                      {"half", op_guard<l_convert<DType::Float16>>},
                                      {"bfloat16", op_guard<l_convert<DType::BFloat16>>},
                                      {"float", op_guard<l_convert<DType::Float32>>},
                                      {"double", op_guard<l_convert<DType::Float64>>},
                                      {"cpu", op_guard<l_cpu>},
                                      {"cuda", op_guard<l_cuda>},
                                      {nullptr, nullptr}};
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
