// tensor/core/typed_storage.h: TypedStorage, a counted handle on a Storage seen as elements of one
// dtype: what `x:storage()` is in a script and what hosts hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tensor/core/tensor.h"

namespace moonlet {

// Copying a TypedStorage copies the handle. A default-made one is undefined. Positions are 0-based.
// Writes raise the storage's version, and throw when it is read-only.
class TypedStorage {
 public:
  TypedStorage() = default;
  // `size` zeros. Throws on a negative or too large size and OutOfMemory.
  TypedStorage(int64_t size, Options options);
  // All of the storage that x views, in x's dtype. x must be defined.
  explicit TypedStorage(const Tensor& x);
  // The elements of a file, or its first `size`; see Storage::map_file. Throws naming the path when
  // the file does not hold a whole number of elements.
  static TypedStorage map_file(const std::string& path, DType dtype, Mapping mapping,
                               std::optional<int64_t> size = {});

  TypedStorage(const TypedStorage& other) noexcept
      : storage_(other.storage_), dtype_(other.dtype_) {
    if (storage_) storage_->retain();
  }
  TypedStorage(TypedStorage&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)), dtype_(other.dtype_) {}
  TypedStorage& operator=(TypedStorage other) noexcept {
    std::swap(storage_, other.storage_);
    std::swap(dtype_, other.dtype_);
    return *this;
  }
  ~TypedStorage() {
    if (storage_) storage_->release();
  }

  bool defined() const { return storage_ != nullptr; }
  // Whether both are the same memory, whatever the dtype.
  bool is_same(const TypedStorage& other) const { return storage_ == other.storage_; }
  Storage& storage() const { return *storage_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  int64_t size() const { return static_cast<int64_t>(storage_->bytes() / size_of(dtype_)); }
  int64_t nbytes() const { return static_cast<int64_t>(storage_->bytes()); }
  void* data() const { return storage_->data(); }

  // All elements as a tensor of one dimension.
  Tensor tensor() const;
  // Element i; on a device it is copied to the host, and a write waits for nothing. Throw when i is
  // outside or `value` does not fit the dtype.
  Scalar get(int64_t i) const;
  void set(int64_t i, const Scalar& value);
  void fill(const Scalar& value);
  // The elements of `source`, which has as many, converted to this dtype and moved to this device.
  void copy(const TypedStorage& source);
  // See Storage::resize.
  void resize(int64_t size);

 private:
  TypedStorage(Storage* adopted, DType dtype) : storage_(adopted), dtype_(dtype) {}
  Tensor element(int64_t i, const char* op) const;

  Storage* storage_ = nullptr;
  DType dtype_ = DType::Float32;
};

}  // namespace moonlet
