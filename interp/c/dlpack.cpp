// interp/c/dlpack.cpp: tensors that pass to other libraries and from them as DLPack's structs.
#include "interp/c/dlpack.h"

#include <memory>

#include "interp/c/calls.h"
#include "interp/c/memory.h"
#include "tensor/core/layout.h"

using namespace moonlet::c;
using moonlet::Device;
using moonlet::Dims;
using moonlet::DType;
using moonlet::Kind;
using moonlet::Tensor;

namespace {

// --- dtypes and devices --------------------------------------------------------------------------

struct Format {
  DType dtype;
  uint8_t code;
};
// The formats of floats that bits alone do not tell.
constexpr Format kSpecial[] = {{DType::BFloat16, kDLBfloat},
                               {DType::Float8E4M3FN, kDLFloat8_e4m3fn},
                               {DType::Float8E5M2, kDLFloat8_e5m2}};

uint8_t code_of(DType dtype) {
  for (const Format& format : kSpecial)
    if (format.dtype == dtype) return format.code;
  switch (kind_of(dtype)) {
    case Kind::Bool: return kDLBool;
    case Kind::Unsigned: return kDLUInt;
    case Kind::Signed: return kDLInt;
    case Kind::Floating: return kDLFloat;
    case Kind::Complex: return kDLComplex;
  }
  return kDLOpaqueHandle;
}

DLDataType format_of(DType dtype) {
  return {code_of(dtype), static_cast<uint8_t>(8 * size_of(dtype)), 1};
}

DType dtype_of_format(const DLDataType& format, const char* function) {
  for (int i = 0; i < moonlet::kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DLDataType own = format_of(dtype);
    if (own.code == format.code && own.bits == format.bits && format.lanes == 1) return dtype;
  }
  moonlet::fail(function, ": no dtype has DLPack's code ", static_cast<int>(format.code), " with ",
                static_cast<int>(format.bits), " bits and ", static_cast<int>(format.lanes),
                " lanes");
}

DLDevice device_number(const Tensor& x, const char* function) {
  const Device device = x.device();
  if (device.is_cpu()) return {kDLCPU, 0};
  if (moonlet::find_device_type("cuda") == device.type) return {kDLCUDA, device.index};
  moonlet::fail(function, ": DLPack has no number for device ", device);
}

Device device_of(const DLDevice& device, const char* function) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost: return {};
    case kDLCUDA:
    case kDLCUDAManaged: return moonlet::device_from_name(moonlet::text("cuda:", device.device_id));
    default:
      moonlet::fail(function, ": expected memory of the CPU or of a CUDA device, got DLPack's ",
                    "device type ", static_cast<int>(device.device_type));
  }
}

// --- out -----------------------------------------------------------------------------------------

// What a struct that was given out refers to.
template <class Managed>
struct Loan {
  Tensor tensor;
  Managed managed{};
  int64_t sizes[moonlet::kMaxDims + 1] = {}, strides[moonlet::kMaxDims + 1] = {};

  static void end(Managed* managed) noexcept {
    if (managed != nullptr) delete static_cast<Loan*>(managed->manager_ctx);
  }
};

template <class Managed>
std::unique_ptr<Loan<Managed>> new_loan(const Tensor& x, const char* function) {
  if (x.requires_grad())
    moonlet::fail(function, ": the tensor requires grad, which DLPack does not carry: expected ",
                  "one that moonlet_tensor_detach gives");
  auto loan = std::make_unique<Loan<Managed>>();
  loan->tensor = x;
  std::copy(x.sizes().begin(), x.sizes().end(), loan->sizes);
  std::copy(x.strides().begin(), x.strides().end(), loan->strides);
  loan->managed.manager_ctx = loan.get();
  loan->managed.deleter = &Loan<Managed>::end;
  DLTensor& out = loan->managed.dl_tensor;
  out.device = device_number(x, function);
  out.data = x.numel() > 0 ? x.raw() : nullptr;
  out.ndim = x.dim();
  out.dtype = format_of(x.dtype());
  out.shape = loan->sizes;
  out.strides = loan->strides;
  out.byte_offset = 0;
  return loan;
}

// --- in ------------------------------------------------------------------------------------------

template <class Managed>
moonlet_tensor borrow(Managed& managed, bool read_only, const char* function) {
  const DLTensor& given = managed.dl_tensor;
  if (given.ndim < 0 || given.ndim > moonlet::kMaxDims)
    moonlet::fail(function, ": expected 0 to ", moonlet::kMaxDims, " dimensions, got ", given.ndim);
  Memory memory;
  memory.dtype = dtype_of_format(given.dtype, function);
  memory.device = device_of(given.device, function);
  memory.sizes = dims_in(given.shape, given.ndim, function, "shape");
  if (given.strides != nullptr)
    memory.strides = dims_in(given.strides, given.ndim, function, "strides");
  memory.data =
      given.data == nullptr ? nullptr : static_cast<char*>(given.data) + given.byte_offset;
  memory.read_only = read_only;
  return lend(memory, releasing(managed.deleter, &managed), function);
}

}  // namespace

moonlet_status moonlet_to_dlpack(moonlet_tensor tensor, struct DLManagedTensorVersioned** managed) {
  const char* function = __func__;
  return guarded([&] {
    TensorIn x(tensor, function, "tensor");
    not_null(managed, function, "managed");
    auto loan = new_loan<DLManagedTensorVersioned>(*x, function);
    loan->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    loan->managed.flags = x->storage().is_read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    *managed = &loan.release()->managed;
  });
}

moonlet_status moonlet_to_dlpack_unversioned(moonlet_tensor tensor,
                                             struct DLManagedTensor** managed) {
  const char* function = __func__;
  return guarded([&] {
    TensorIn x(tensor, function, "tensor");
    not_null(managed, function, "managed");
    if (x->storage().is_read_only())
      moonlet::fail(function, ": the memory is read-only, which the unversioned struct does not ",
                    "say: expected moonlet_to_dlpack");
    *managed = &new_loan<DLManagedTensor>(*x, function).release()->managed;
  });
}

moonlet_status moonlet_from_dlpack(struct DLManagedTensorVersioned* managed,
                                   moonlet_tensor* tensor) {
  const char* function = __func__;
  return guarded([&] {
    not_null(tensor, function, "tensor");
    DLManagedTensorVersioned& given = not_null(managed, function, "managed");
    if (given.version.major != DLPACK_MAJOR_VERSION)
      moonlet::fail(function, ": expected DLPack version ", DLPACK_MAJOR_VERSION, ", got ",
                    static_cast<int64_t>(given.version.major));
    *tensor = borrow(given, (given.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0, function);
  });
}

moonlet_status moonlet_from_dlpack_unversioned(struct DLManagedTensor* managed,
                                               moonlet_tensor* tensor) {
  const char* function = __func__;
  return guarded([&] {
    not_null(tensor, function, "tensor");
    *tensor = borrow(not_null(managed, function, "managed"), false, function);
  });
}
