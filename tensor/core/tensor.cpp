// tensor/core/tensor.cpp: making tensors: new ones, views with checked bounds, and tensors over
// foreign buffers. Headers come from a per-thread free list.
#include "tensor/core/tensor.h"

#include <algorithm>
#include <new>

#include "tensor/core/byte_count.h"
#include "tensor/core/set.h"
#include "tensor/memory/budget.h"
#include "tensor/memory/free_list.h"
#include "tensor/program/reclaim.h"
#include "tensor/runtime/batched.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {

namespace {

using Headers = memory::FreeListOf<TensorImpl, size_t{16} << 20>;

// Takes over one reference to the storage, also when it throws. All tensors come from here, so that
// whatever makes many of them ends when a stop is requested.
Tensor wrap(Storage* storage, DType dtype) {
  try {
    stop_if_requested();
    TensorImpl* impl = new (Headers::get()) TensorImpl;
    impl->dtype = dtype;
    impl->storage = storage;
    return Tensor::adopt(impl);
  } catch (const std::bad_alloc&) {
    storage->release();
    throw OutOfMemory("out of memory: could not allocate a tensor header");
  } catch (const Error&) {
    storage->release();
    throw;
  }
}

void check_bounds(const Storage& storage, const Dims& sizes, const Dims& strides, int64_t offset,
                  DType dtype, const char* op) {
  check(sizes.size() == strides.size(), op, ": sizes ", sizes, " and strides ", strides,
        " differ in length");
  const int64_t count = numel_of(sizes, op);
  check(offset >= 0, op, ": negative storage offset ", offset);
  for (int64_t stride : strides) check(stride >= 0, op, ": negative stride in ", strides);
  const auto have = static_cast<int64_t>(storage.bytes() / size_of(dtype));
  int64_t last = offset;
  for (int i = 0; i < sizes.size() && count > 0; ++i) {
    int64_t reach;
    check(!__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) &&
              !__builtin_add_overflow(last, reach, &last),
          op, ": sizes ", sizes, " with strides ", strides, " overflow");
  }
  check(count == 0 || last < have, op, ": sizes ", sizes, " with strides ", strides,
        " from offset ", offset, " reach outside a storage of ", have, " elements");
}

}  // namespace

void TensorImpl::destroy(TensorImpl* impl) noexcept {
  delete impl->autograd;
  if (impl->storage) impl->storage->release();
  impl->~TensorImpl();
  Headers::put(impl);
}

namespace {
// Of so many elements, which are no more than numel_of allows.
size_t bytes_of(int64_t count, DType dtype, const char* op) {
  return byte_count(count * static_cast<int64_t>(size_of(dtype)), op);
}

Storage* try_storage(size_t bytes, Device device, const char* op) {
  try {
    return Storage::allocate(bytes, device);
  } catch (const memory::BudgetExceeded& e) {
    throw memory::BudgetExceeded(text(op, ": ", e.what()));
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(text(op, ": ", e.what()));
  }
}

// Where what runs cannot be run again as a whole, as a backward pass, memory is reclaimed here.
Storage* storage_for(size_t bytes, Device device, const char* op) {
  try {
    return try_storage(bytes, device, op);
  } catch (const OutOfMemory&) {
    if (program::current_reclaimer() == nullptr) throw;
  }
  program::current_reclaimer()->reclaim();
  return try_storage(bytes, device, op);
}

// A tensor on new memory, without its strides.
Tensor allocate(const Dims& sizes, Options options, const char* op) {
  if (options.device.is_batched()) [[unlikely]]
    return empty_batched(sizes, options, op);
  const int64_t count = numel_of(sizes, op);
  const size_t bytes = bytes_of(count, options.dtype, op);
  Tensor out = wrap(storage_for(bytes, options.device, op), options.dtype);
  out.impl()->numel = count;
  out.impl()->sizes = sizes;
  return out;
}
}  // namespace

void refuse_data(const Tensor& x, DType wanted) {
  check(x.defined(), "data: the tensor is undefined");
  check(x.dtype() == wanted, "data: the tensor is ", x.dtype(), ", ", wanted,
        " was expected: use to()");
  check(!x.device().is_batched(),
        "data: this tensor stands for the samples of a vmap and has no memory of its own: compute "
        "by ops, or call the function for each sample");
  check(x.device().is_cpu(), "data: the tensor is on ", x.device(),
        ": copy it to the host with to()");
  check(x.is_contiguous(), "data: the elements of shape ", x.sizes(), " with strides ", x.strides(),
        " do not lie one after another: use contiguous()");
  fail("data: the memory is read-only: ask for data<const T>()");
}

Tensor empty_plain(const Dims& sizes, Options options, const char* op) {
  Tensor out = allocate(sizes, options, op);
  out.impl()->strides = contiguous_strides(sizes);
  return out;
}

Tensor empty_strided(const Dims& sizes, const Dims& strides, Options options, const char* op) {
  check(sizes.size() == strides.size(), op, ": sizes ", sizes, " and strides ", strides,
        " differ in length");
  const int64_t count = numel_of(sizes, op);
  int64_t reach = count > 0 ? 1 : 0;
  for (int d = 0; count > 0 && d < sizes.size(); ++d) reach += (sizes[d] - 1) * strides[d];
  // Elements may lie apart.
  Tensor out = reach > count ? allocate({reach}, options, op) : allocate(sizes, options, op);
  TensorImpl& impl = *out.impl();
  impl.sizes = sizes;
  impl.strides = strides;
  impl.numel = count;
  impl.contiguous = is_contiguous(sizes, strides);
  return out;
}

Tensor empty_like_plain(const Tensor& x, MemoryFormat format, Options options, const char* op) {
  if (format == MemoryFormat::Contiguous || (format == MemoryFormat::Preserve && x.is_contiguous()))
    return empty_plain(x.sizes(), options, op);
  return empty_strided(x.sizes(),
                       format == MemoryFormat::Preserve ? dense_strides(x.sizes(), x.strides())
                                                        : format_strides(format, x.sizes(), op),
                       options, op);
}

namespace {
Tensor position_on(Storage& storage, const Dims& sizes, const Dims& strides, int64_t offset,
                   DType dtype, int64_t numel) {
  if (storage.stand_in() != nullptr) [[unlikely]]
    fail("a tensor inside vmap has no memory that could be seen in another way");
  storage.retain();
  Tensor out = wrap(&storage, dtype);
  TensorImpl* impl = out.impl();
  impl->numel = numel;
  impl->offset = offset;
  // A part of an empty tensor may begin past the storage; no pointer may.
  if (numel == 0)
    impl->offset = std::min(offset, static_cast<int64_t>(storage.bytes() / size_of(dtype)));
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_contiguous(sizes, strides);
  return out;
}
}  // namespace

Tensor view_of(Storage& storage, const Dims& sizes, const Dims& strides, int64_t offset,
               DType dtype, const char* op) {
  check_bounds(storage, sizes, strides, offset, dtype, op);
  return position_on(storage, sizes, strides, offset, dtype, numel_of(sizes, op));
}

Tensor part_of(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  return position_on(x.storage(), sizes, strides, offset, x.dtype(), numel);
}

Tensor alias(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset) {
  return view_of(x.storage(), sizes, strides, offset, x.dtype());
}

Tensor on_stand_in(Storage* storage, const Dims& sizes, const Dims& strides, DType dtype) {
  Tensor out = wrap(storage, dtype);
  TensorImpl* impl = out.impl();
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_contiguous(sizes, strides);
  impl->numel = 1;
  for (const int64_t size : sizes) impl->numel *= size;
  return out;
}

void resize_plain(Tensor& x, const Dims& sizes, const Dims& strides) {
  const int64_t count = numel_of(sizes, "resize");
  check_geometry_is_own(x, "out");
  TensorImpl* impl = x.impl();
  Storage* fresh = Storage::allocate(bytes_of(count, x.dtype(), "resize"), x.device());
  fresh->note_interpreter_of(*impl->storage);
  fresh->pass_version(impl->storage->version());
  impl->storage->release();
  impl->storage = fresh;
  impl->offset = 0;
  impl->numel = count;
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_contiguous(sizes, strides);
}

Tensor shallow_copy(const Tensor& x) {
  x.storage().retain();
  Tensor out = wrap(&x.storage(), x.dtype());
  TensorImpl* impl = out.impl();
  impl->offset = x.offset();
  impl->numel = x.numel();
  impl->sizes = x.sizes();
  impl->strides = x.strides();
  impl->contiguous = x.is_contiguous();
  return out;
}

Tensor from_blob(void* data, const Dims& sizes, DType dtype, std::function<void()> deleter) {
  const int64_t count = numel_of(sizes, "from_blob");
  const size_t bytes = bytes_of(count, dtype, "from_blob");
  check(data != nullptr || bytes == 0, "from_blob: a null buffer for sizes ", sizes);
  Tensor out = wrap(Storage::foreign(data, bytes, {}, std::move(deleter)), dtype);
  TensorImpl* impl = out.impl();
  impl->numel = count;
  impl->sizes = sizes;
  impl->strides = contiguous_strides(sizes);
  return out;
}

}  // namespace moonlet
