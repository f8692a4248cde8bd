// tensor/core/typed_storage.cpp: elements of a storage, read and written through tensors on it, so
// that every device, dtype check and version counter is the ops' own.
#include "tensor/core/typed_storage.h"

#include "tensor/core/byte_count.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/plain_copy.h"
#include "tensor/raw_copy.h"

namespace moonlet {

namespace {

size_t bytes_for(int64_t size, DType dtype, const char* op) {
  return byte_count(numel_of({size}, op) * static_cast<int64_t>(size_of(dtype)), op);
}

// What errors name as the last writer of a tensor that was saved: nobody called the op that wrote.
constexpr const char* kWriter = "a write through its storage";

Scalar value_of(const Tensor& host) {
  return visit<dtypes::any>(host.dtype(),
                            [&]<class T>() { return Scalar::of(*host.elements<T>()); });
}

}  // namespace

TypedStorage::TypedStorage(int64_t size, Options options)
    : storage_(Storage::allocate(bytes_for(size, options.dtype, "Storage"), options.device)),
      dtype_(options.dtype) {
  Tensor all = tensor();
  fill_plain(all, Scalar(0), "Storage");
}

TypedStorage::TypedStorage(const Tensor& x) : storage_(&x.storage()), dtype_(x.dtype()) {
  storage_->retain();
}

TypedStorage TypedStorage::map_file(const std::string& path, DType dtype, Mapping mapping,
                                    std::optional<int64_t> size) {
  std::optional<size_t> bytes;
  if (size) bytes = bytes_for(*size, dtype, "Storage");
  TypedStorage out(Storage::map_file(path, mapping, bytes), dtype);
  check(out.storage().bytes() % size_of(dtype) == 0, "cannot map '", path, "': its ", out.nbytes(),
        " bytes are no whole number of ", dtype, " elements");
  return out;
}

Tensor TypedStorage::tensor() const {
  return view_of(*storage_, {size()}, {1}, 0, dtype_, "Storage");
}

Tensor TypedStorage::element(int64_t i, const char* op) const {
  check(i >= 0 && i < size(), op, ": position ", i + 1, " is outside a storage of ", size(),
        " elements");
  return view_of(*storage_, {}, {}, i, dtype_, op);
}

Scalar TypedStorage::get(int64_t i) const { return value_of(on_host(element(i, "Storage"))); }

void TypedStorage::set(int64_t i, const Scalar& value) {
  Tensor x = element(i, "Storage");
  raw::fill_(x, value);
  storage_->set_last_writer(kWriter);
}

void TypedStorage::fill(const Scalar& value) {
  Tensor all = tensor();
  raw::fill_(all, value);
  storage_->set_last_writer(kWriter);
}

void TypedStorage::copy(const TypedStorage& source) {
  check(source.size() == size(), "copy: the source has ", source.size(),
        " elements and the storage ", size());
  Tensor all = tensor();
  raw::copy_(all, source.tensor());
  storage_->set_last_writer(kWriter);
}

void TypedStorage::resize(int64_t size) {
  storage_->resize(bytes_for(size, dtype_, "resize"), "resize");
}

}  // namespace moonlet
