// interp/c/tensors.cpp: tensors of the C interface: from memory and back, and what they are.
#include <algorithm>
#include <cstring>
#include <memory>

#include "autograd/ops_clone.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/tape.h"
#include "interp/c/calls.h"
#include "interp/c/memory.h"
#include "tensor/core/typed_storage.h"

namespace moonlet::c {
namespace {

// The dtypes by their numbers in c.h.
constexpr DType kNumbered[] = {
    DType::Bool,       DType::UInt8,     DType::Int8,     DType::Int16,   DType::Int32,
    DType::Int64,      DType::UInt16,    DType::UInt32,   DType::UInt64,  DType::Float8E4M3FN,
    DType::Float8E5M2, DType::Float16,   DType::BFloat16, DType::Float32, DType::Float64,
    DType::Complex64,  DType::Complex128};
static_assert(std::size(kNumbered) == kDTypeCount, "a dtype has no number in interp/c/c.h");
static_assert(kNumbered[MOONLET_FLOAT16] == DType::Float16 &&
              kNumbered[MOONLET_COMPLEX128] == DType::Complex128);

}  // namespace

DType dtype_in(int32_t dtype, const char* function) {
  if (dtype < 0 || dtype >= kDTypeCount)
    refuse(function, ": expected a dtype from MOONLET_BOOL to MOONLET_COMPLEX128, got ", dtype);
  return kNumbered[dtype];
}

int32_t dtype_number(DType dtype) {
  return static_cast<int32_t>(std::find(std::begin(kNumbered), std::end(kNumbered), dtype) -
                              std::begin(kNumbered));
}

Device device_in(const char* device) {
  return device == nullptr ? execution.default_device : device_from_name(device);
}

Dims dims_in(const int64_t* sizes, int32_t rank, const char* function, const char* argument) {
  if (rank < 0 || rank > kMaxDims)
    refuse(function, ": 'rank': expected 0 to ", kMaxDims, ", got ", rank);
  if (rank > 0) not_null(sizes, function, argument);
  return Dims(sizes, rank);
}

namespace {

// How many elements lie between the first and the end of the last.
int64_t extent_of(const Memory& memory, int64_t count, const char* function) {
  if (!memory.strides.given()) return count;
  int64_t extent = count == 0 ? 0 : 1;
  for (int i = 0; i < memory.sizes.size(); ++i) {
    if (memory.strides[i] < 0)
      refuse(function, ": expected strides from 0 on, got ", memory.strides[i]);
    if (count > 0)
      extent = checked_add(extent, checked_mul(memory.sizes[i] - 1, memory.strides[i], function),
                           function);
  }
  return extent;
}

}  // namespace

Tensor tensor_on(const Memory& memory, std::function<void()> release, const char* function) {
  const auto element = static_cast<int64_t>(size_of(memory.dtype));
  const int64_t count = numel_of(memory.sizes, function);
  const int64_t bytes = checked_mul(extent_of(memory, count, function), element, function);
  if (memory.data == nullptr && bytes > 0) refuse_null(function, "data");
  // Sizes of elements are powers of two: no division.
  if ((reinterpret_cast<uintptr_t>(memory.data) & (std::min<uintptr_t>(element, 8) - 1)) != 0)
    refuse(function, ": 'data': expected memory aligned to elements of ", memory.dtype,
           ", got an odd address");
  const Unfinished unfinished(release);
  if (!memory.strides.given() && memory.device.is_cpu()) {
    Tensor out = from_blob(memory.data, memory.sizes, memory.dtype, std::move(release));
    if (memory.read_only) out.storage().make_read_only();
    return out;
  }
  Storage* storage =
      Storage::foreign(memory.data, static_cast<size_t>(bytes), memory.device, std::move(release));
  if (memory.read_only) storage->make_read_only();
  const Dims& strides = memory.strides;
  try {
    Tensor out = view_of(*storage, memory.sizes,
                         memory.strides.given() ? strides : contiguous_strides(memory.sizes), 0,
                         memory.dtype, function);
    storage->release();
    return out;
  } catch (...) {
    storage->release();
    throw;
  }
}

moonlet_tensor lend(const Memory& memory, std::function<void()> release, const char* function) {
  const Unfinished unfinished(release);
  return handle_of(tensor_on(memory, std::move(release), function));
}

}  // namespace moonlet::c

using namespace moonlet::c;
using moonlet::Dims;
using moonlet::DType;
using moonlet::Tensor;

namespace {

// Calls `body(Tensor&)`.
template <class Body>
moonlet_status with_tensor(moonlet_tensor tensor, const char* function, Body&& body) {
  return guarded([&] { body(*TensorIn(tensor, function, "tensor")); });
}

int dim_in(const Tensor& x, int32_t dim, const char* function) {
  const int rank = x.dim();
  if (dim < -rank || dim >= rank)
    refuse(function, ": 'dim': expected ", -rank, " to ", rank - 1, ", got ", dim);
  return dim < 0 ? dim + rank : dim;
}

void check_bytes(const Tensor& x, size_t bytes, const char* function) {
  const size_t wanted = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  if (bytes != wanted)
    refuse(function, ": 'bytes': expected ", wanted, " for ", x.sizes(), " of ", x.dtype(),
           ", got ", bytes);
}

// A tensor on the caller's memory that is only read, while the call lasts.
Tensor borrowed(const void* data, const Dims& sizes, DType dtype, const char* function) {
  return tensor_on({.data = const_cast<void*>(data),
                    .sizes = sizes,
                    .strides = {},
                    .dtype = dtype,
                    .read_only = true},
                   {}, function);
}

moonlet_tensor_info info_of(const Tensor& x) {
  moonlet_tensor_info out{};
  out.dtype = dtype_number(x.dtype());
  out.rank = x.dim();
  out.numel = x.numel();
  std::copy(x.sizes().begin(), x.sizes().end(), out.sizes);
  std::copy(x.strides().begin(), x.strides().end(), out.strides);
  if (x.device().is_cpu()) {
    out.readable = x.raw();
    if (!x.storage().is_read_only()) out.data = x.raw();
  }
  out.contiguous = x.is_contiguous() ? 1 : 0;
  out.requires_grad = x.requires_grad() ? 1 : 0;
  const std::string device = moonlet::name(x.device());
  device.copy(out.device, sizeof out.device - 1);
  return out;
}

}  // namespace

moonlet_status moonlet_tensor_empty(const int64_t* sizes, int32_t rank, int32_t dtype,
                                    const char* device, moonlet_tensor* tensor) {
  const char* function = __func__;
  return guarded([&] {
    give(&not_null(tensor, function, "tensor"),
         moonlet::empty(dims_in(sizes, rank, function, "sizes"),
                        {dtype_in(dtype, function), device_in(device)}));
  });
}

moonlet_status moonlet_tensor_copy_of(const void* data, const int64_t* sizes, int32_t rank,
                                      int32_t dtype, moonlet_tensor* tensor) {
  const char* function = __func__;
  return guarded([&] {
    const moonlet::NoGrad no_grad;
    const Dims dims = dims_in(sizes, rank, function, "sizes");
    give(&not_null(tensor, function, "tensor"),
         moonlet::clone(borrowed(data, dims, dtype_in(dtype, function), function)));
  });
}

moonlet_status moonlet_tensor_from_memory(void* data, const int64_t* sizes, const int64_t* strides,
                                          int32_t rank, int32_t dtype, void (*deleter)(void* user),
                                          void* user, moonlet_tensor* tensor) {
  const char* function = __func__;
  return guarded([&] {
    not_null(tensor, function, "tensor");
    Memory memory{.data = data,
                  .sizes = dims_in(sizes, rank, function, "sizes"),
                  .strides = {},
                  .dtype = dtype_in(dtype, function)};
    if (strides != nullptr) memory.strides = dims_in(strides, rank, function, "strides");
    *tensor = lend(memory, releasing(deleter, user), function);
  });
}

moonlet_status moonlet_tensor_share(moonlet_tensor tensor, moonlet_tensor* other) {
  return with_tensor(tensor, __func__, [&](const Tensor& x) { give(other, x); });
}

moonlet_status moonlet_tensor_describe(moonlet_tensor tensor, moonlet_tensor_info* info) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](const Tensor& x) {
    moonlet_tensor_info& to = not_null(info, function, "info");
    moonlet_tensor_info out = info_of(x);
    fill_struct(to, out, function);
  });
}

moonlet_status moonlet_tensor_rank(moonlet_tensor tensor, int32_t* rank) {
  return with_tensor(tensor, __func__, [&](const Tensor& x) { give(rank, x.dim()); });
}

moonlet_status moonlet_tensor_dtype(moonlet_tensor tensor, int32_t* dtype) {
  return with_tensor(tensor, __func__,
                     [&](const Tensor& x) { give(dtype, dtype_number(x.dtype())); });
}

moonlet_status moonlet_tensor_numel(moonlet_tensor tensor, int64_t* numel) {
  return with_tensor(tensor, __func__, [&](const Tensor& x) { give(numel, x.numel()); });
}

moonlet_status moonlet_tensor_size(moonlet_tensor tensor, int32_t dim, int64_t* size) {
  const char* function = __func__;
  return with_tensor(tensor, function,
                     [&](const Tensor& x) { give(size, x.size(dim_in(x, dim, function))); });
}

moonlet_status moonlet_tensor_stride(moonlet_tensor tensor, int32_t dim, int64_t* stride) {
  const char* function = __func__;
  return with_tensor(tensor, function,
                     [&](const Tensor& x) { give(stride, x.stride(dim_in(x, dim, function))); });
}

moonlet_status moonlet_tensor_data(moonlet_tensor tensor, int32_t dtype, void** data) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](const Tensor& x) {
    const DType wanted = dtype_in(dtype, function);
    if (x.dtype() != wanted || !x.is_contiguous() || !x.device().is_cpu() ||
        x.storage().is_read_only())
      moonlet::refuse_data(x, wanted);
    give(data, x.raw());
  });
}

moonlet_status moonlet_tensor_read(moonlet_tensor tensor, void* memory, size_t bytes) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](const Tensor& x) {
    check_bytes(x, bytes, function);
    if (bytes == 0) return;
    not_null(static_cast<char*>(memory), function, "memory");
    const moonlet::NoGrad no_grad;
    const Tensor here = moonlet::contiguous(moonlet::to(x, std::nullopt, moonlet::Device{}));
    if (!here.device().is_cpu()) moonlet::refuse_data(here, here.dtype());
    std::memcpy(memory, here.raw(), bytes);
  });
}

moonlet_status moonlet_tensor_write(moonlet_tensor tensor, const void* memory, size_t bytes) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](Tensor& x) {
    check_bytes(x, bytes, function);
    if (bytes == 0) return;
    Tensor source = borrowed(&not_null(static_cast<const char*>(memory), function, "memory"),
                             x.sizes(), x.dtype(), function);
    // A device may read it after this call.
    if (!x.device().is_cpu()) source = moonlet::clone(source);
    moonlet::copy_(x, source);
  });
}

moonlet_status moonlet_tensor_item(moonlet_tensor tensor, moonlet_value* value) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](const Tensor& x) {
    if (x.numel() != 1)
      moonlet::fail(function, ": expected one element, got a tensor of shape ", x.sizes());
    if (x.device().is_batched()) moonlet::refuse_data(x, x.dtype());
    const moonlet::Scalar item = moonlet::TypedStorage(x).get(x.offset());
    if (value != nullptr) put_scalar(item, *value);
  });
}

moonlet_status moonlet_tensor_to(moonlet_tensor tensor, int32_t dtype, const char* device,
                                 moonlet_tensor* result) {
  const char* function = __func__;
  return with_tensor(tensor, function, [&](const Tensor& x) {
    std::optional<DType> wanted;
    if (dtype != -1) wanted = dtype_in(dtype, function);
    std::optional<moonlet::Device> where;
    if (device != nullptr) where = moonlet::device_from_name(device);
    give(result, moonlet::to(x, wanted, where));
  });
}

moonlet_status moonlet_dtype_name(int32_t dtype, const char** name) {
  const char* function = __func__;
  return guarded([&] { give(name, moonlet::name(dtype_in(dtype, function)).data()); });
}

moonlet_status moonlet_dtype_from_name(const char* name, int32_t* dtype) {
  const char* function = __func__;
  return guarded([&] {
    give(dtype, dtype_number(moonlet::dtype_from_name(text_in(name, function, "name"))));
  });
}

moonlet_status moonlet_dtype_size(int32_t dtype, size_t* bytes) {
  const char* function = __func__;
  return guarded([&] { give(bytes, size_of(dtype_in(dtype, function))); });
}
