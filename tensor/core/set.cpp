// tensor/core/set.cpp: moves a tensor to other memory or another shape. What the tape knows of a
// tensor would be wrong afterwards, so tensors it follows are refused.
#include "tensor/core/set.h"

#include <algorithm>

#include "tensor/core/byte_count.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {

void refuse_history(const Tensor& x, const char* op) {
  const AutogradMetaInterface* meta = x.impl()->autograd;
  if (!x.requires_grad()) return;
  check(!meta->has_history && !meta->base, op,
        ": this tensor is computed from others, and its history would not fit; detach it first");
}

// A tensor that the tape does not follow is no view of its base any more, nor has it use for a
// gradient of its old elements.
void forget_tape(TensorImpl* impl) {
  delete impl->autograd;
  impl->autograd = nullptr;
}

void set_geometry(TensorImpl* impl, const Dims& sizes, const Dims& strides, int64_t offset) {
  impl->offset = offset;
  impl->numel = numel_of(sizes, "set_");
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_contiguous(sizes, strides);
}

}  // namespace

void check_geometry_is_own(const Tensor& x, const char* op) {
  const TensorImpl* impl = x.impl();
  check(
      !impl->storage->has_shared_handles() || impl->references.load(std::memory_order_acquire) == 1,
      op,
      ": this tensor is shared with another interpreter, so its shape and memory are fixed; use "
      "x:clone() or x:view(x.shape) instead");
}

void take_geometry(Tensor& x, const Tensor& y) {
  set_geometry(x.impl(), y.sizes(), y.strides(), y.offset());
}

// Strides that no element is reached by may be anything; views made later multiply them.
constexpr int64_t kLargeStride = int64_t{1} << 40;

Dims taken_strides(const Dims& sizes, const Dims& strides) {
  if (sizes.size() != strides.size()) return strides;  // refused where they are used
  Dims out = strides;
  for (int i = 0; i < out.size(); ++i)
    if (strides[i] > kLargeStride && (sizes[i] <= 1 || sizes.contains(0))) out[i] = 1;
  return out;
}

Tensor& set_(Tensor& x, const TypedStorage& storage, int64_t offset, const Dims& sizes,
             const Dims& strides) {
  refuse_history(x, "set_");
  check_geometry_is_own(x, "set_");
  check(storage.dtype() == x.dtype(), "set_: the storage holds ", storage.dtype(),
        " and the tensor is ", x.dtype());
  check(storage.device() == x.device(), "set_: the storage is on ", storage.device(),
        " and the tensor on ", x.device());
  if (x.requires_grad()) {
    check(!execution.grad_mode,
          "set_: a leaf that requires grad cannot be moved while recording; wrap the call in "
          "ml.no_grad");
    check(sizes == x.sizes(), "set_: a leaf that requires grad keeps its shape ", x.sizes(),
          ", got ", sizes);
  }
  const Tensor target =
      view_of(storage.storage(), sizes, taken_strides(sizes, strides), offset, x.dtype(), "set_");
  TensorImpl* impl = x.impl();
  if (!x.requires_grad()) forget_tape(impl);
  Storage& now = storage.storage();
  now.pass_version(impl->storage->version());
  now.note_interpreter_of(*impl->storage);
  now.set_last_writer("set_");
  now.retain();
  std::exchange(impl->storage, &now)->release();
  set_geometry(impl, sizes, target.strides(), target.offset());
  ++impl->moves;
  return x;
}

void take_memory(Tensor& x, const Tensor& y) {
  check_geometry_is_own(x, "data");
  TensorImpl *impl = x.impl(), *from = y.impl();
  if (!x.requires_grad()) forget_tape(impl);
  if (impl == from) return;
  Storage& now = *from->storage;
  if (&now != impl->storage) now.pass_version(impl->storage->version());
  now.note_interpreter_of(*impl->storage);
  now.retain();
  std::exchange(impl->storage, &now)->release();
  impl->dtype = from->dtype;
  set_geometry(impl, y.sizes(), y.strides(), y.offset());
  ++impl->moves;
}

Tensor& resize_(Tensor& x, const Dims& sizes) {
  const int64_t count = numel_of(sizes, "resize_");
  check(!x.requires_grad(),
        "resize_: a tensor that requires grad cannot change its shape; detach it");
  if (x.sizes() == sizes) return x;
  check_geometry_is_own(x, "resize_");
  TensorImpl* impl = x.impl();
  const int64_t end = count == 0 ? 0 : checked_add(impl->offset, count, "resize_");
  const int64_t bytes = checked_mul(end, static_cast<int64_t>(size_of(x.dtype())), "resize_");
  Storage& storage = *impl->storage;
  const size_t wanted = byte_count(bytes, "resize_");
  if (wanted > storage.bytes()) storage.resize(wanted, "resize_");
  forget_tape(impl);
  storage.bump_version();
  storage.set_last_writer("resize_");
  set_geometry(impl, sizes, contiguous_strides(sizes), impl->offset);
  ++impl->moves;
  return x;
}

}  // namespace moonlet
