// tensor/core/tensor.h: Tensor, a counted handle on sizes, strides and an offset into a Storage.
// Copying a Tensor copies the handle. A default-made Tensor is undefined (no sizes, no storage).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/core/device.h"
#include "tensor/core/dims.h"
#include "tensor/core/dtype.h"
#include "tensor/core/layout.h"
#include "tensor/core/scalar.h"
#include "tensor/core/storage.h"

namespace moonlet {

struct TensorImpl;

// What the tape keeps beside a tensor; tensor/ only owns it.
class AutogradMetaInterface {
 public:
  virtual ~AutogradMetaInterface() = default;
  // Whether a view requires grad because of its base.
  virtual bool view_requires_grad() const noexcept = 0;

  bool requires_grad = false;
  bool has_history = false;  // the result of a recorded op
  // The tensor this one is a view of (the derived class keeps it alive), or null: a view requires
  // grad as soon as a recorded op has changed its base in place.
  TensorImpl* base = nullptr;
};

struct TensorImpl {
  std::atomic<int32_t> references{1};
  DType dtype = DType::Float32;
  bool contiguous = true;
  // How often it was moved over memory by what leaves its views where they were (set_, resize_).
  uint16_t moves = 0;
  Storage* storage = nullptr;
  int64_t offset = 0;  // in elements
  int64_t numel = 0;
  AutogradMetaInterface* autograd = nullptr;
  Dims sizes;
  Dims strides;  // in elements, never negative

  static void destroy(TensorImpl* impl) noexcept;
};

class Tensor;

// Throws, saying why Tensor::data<T>() cannot give out x's elements as `wanted`.
[[noreturn]] void refuse_data(const Tensor& x, DType wanted);

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
    if (impl_) impl_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Tensor() {
    // The only holder needs no locked decrement: nobody else can add a reference.
    if (impl_ && (impl_->references.load(std::memory_order_acquire) == 1 ||
                  impl_->references.fetch_sub(1, std::memory_order_acq_rel) == 1))
      TensorImpl::destroy(impl_);
  }
  // Takes over / gives up one reference: for holders that keep a bare pointer (Lua userdata).
  static Tensor adopt(TensorImpl* impl) noexcept {
    Tensor out;
    out.impl_ = impl;
    return out;
  }
  TensorImpl* release() noexcept { return std::exchange(impl_, nullptr); }

  bool defined() const { return impl_ != nullptr; }
  TensorImpl* impl() const { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  int dim() const { return impl_->sizes.size(); }
  int64_t numel() const { return impl_->numel; }
  const Dims& sizes() const { return impl_->sizes; }
  const Dims& strides() const { return impl_->strides; }
  // 0-based; negative counts from the end; unchecked beyond that.
  int64_t size(int i) const { return impl_->sizes[i < 0 ? i + dim() : i]; }
  int64_t stride(int i) const { return impl_->strides[i < 0 ? i + dim() : i]; }
  int64_t offset() const { return impl_->offset; }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->device(); }
  Storage& storage() const { return *impl_->storage; }
  bool is_contiguous() const { return impl_->contiguous; }

  // All elements, for a host: throws unless they are of type T and lie one after another,
  // row-major, in the host's own memory. Read-only memory is given out as `const T` alone. The tape
  // does not see what is written through the pointer.
  template <class T>
  T* data() const {
    constexpr DType wanted = dtype_of<std::remove_const_t<T>>;
    if (!impl_ || impl_->dtype != wanted || !impl_->contiguous || !device().is_cpu() ||
        (!std::is_const_v<T> && impl_->storage->is_read_only())) [[unlikely]]
      refuse_data(*this, wanted);
    return elements<T>();
  }
  // The first element, for kernels, which know what they were given.
  char* raw() const { return impl_->storage->data() + impl_->offset * size_of(impl_->dtype); }
  template <class T>
  T* elements() const {
    return reinterpret_cast<T*>(raw());
  }

  bool requires_grad() const {
    const AutogradMetaInterface* meta = impl_->autograd;
    if (!meta) return false;
    return meta->requires_grad || (meta->base && meta->view_requires_grad());
  }

 private:
  TensorImpl* impl_ = nullptr;
};

struct Options {
  DType dtype = DType::Float32;
  Device device = {};
};
inline Options options_of(const Tensor& t) { return {t.dtype(), t.device()}; }

// A new contiguous tensor, contents undefined. Throws on bad sizes (naming `op`) and OutOfMemory.
Tensor empty_plain(const Dims& sizes, Options options, const char* op);
inline Tensor empty_plain(const Dims& sizes, Options options) {
  return empty_plain(sizes, options, "empty");
}
// The same with these strides in elements, which must be dense (tensor/core/layout.h).
Tensor empty_strided(const Dims& sizes, const Dims& strides, Options options, const char* op);
// A new dense tensor of x's sizes in that format; Preserve: its dimensions lie in memory in the
// order of x's.
Tensor empty_like_plain(const Tensor& x, MemoryFormat format, Options options, const char* op);
// A tensor on storage that exists (one reference is added). Throws when a reachable element would
// lie outside the storage, or a size or stride is negative.
Tensor view_of(Storage& storage, const Dims& sizes, const Dims& strides, int64_t offset,
               DType dtype, const char* op = "as_strided");
// A tensor that looks like that on a storage that stands for something else
// (tensor/runtime/batched.h); takes over one reference to it.
Tensor on_stand_in(Storage* storage, const Dims& sizes, const Dims& strides, DType dtype);
// Another shape and position on x's storage; bounds are checked as in view_of. No tape.
Tensor alias(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset);
// Some of x's elements, or all in another order: as they are x's own, nothing is checked. No tape.
Tensor part_of(const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset);
// Gives `x` a new storage for that shape and dense strides; contents undefined.
void resize_plain(Tensor& x, const Dims& sizes, const Dims& strides);
// The same geometry and storage in a new handle without the tape's part.
Tensor shallow_copy(const Tensor& x);
// A tensor over the host's own buffer, contiguous, not copied. `deleter` runs when the last user
// has gone; the buffer must live until then.
Tensor from_blob(void* data, const Dims& sizes, DType dtype, std::function<void()> deleter = {});

}  // namespace moonlet
