// cuda/kernels/sort_pairs.cu: CUB's radix sort: the one place that includes CUB, which is slow
// to compile.
#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "cuda/kernels/sort.h"

namespace moonlet::cuda {

namespace {

template <class Key, class Value, class Count>
void sort_as(const Call& call, Tensor& keys, Tensor& values, int bits) {
  Tensor keys_out = call.scratch(keys.sizes(), keys.dtype());
  Tensor values_out = call.scratch(values.sizes(), values.dtype());
  cub::DoubleBuffer<Key> key_buffers(keys.elements<Key>(), keys_out.elements<Key>());
  cub::DoubleBuffer<Value> value_buffers(values.elements<Value>(), values_out.elements<Value>());
  size_t bytes = 0;
  const auto sort = [&](void* storage) {
    ensure(
        cub::DeviceRadixSort::SortPairs(storage, bytes, key_buffers, value_buffers,
                                        static_cast<Count>(keys.numel()), 0, bits, call.stream()),
        call.op());
  };
  sort(nullptr);
  const Tensor storage = call.scratch({static_cast<int64_t>(bytes) + 1}, DType::UInt8);
  sort(storage.raw());
  call.done();
  if (key_buffers.selector != 0) std::swap(keys, keys_out);
  if (value_buffers.selector != 0) std::swap(values, values_out);
}

}  // namespace

void sort_pairs(const Call& call, Tensor& keys, Tensor& values, int bits) {
  if (keys.numel() == 0 || bits == 0) return;
  const bool narrow = values.dtype() == DType::Int32;
  if (keys.dtype() == DType::Int32 && narrow)
    sort_as<uint32_t, uint32_t, uint32_t>(call, keys, values, bits);
  else if (keys.dtype() == DType::Int64 && narrow)
    sort_as<uint64_t, uint32_t, uint32_t>(call, keys, values, bits);
  else if (keys.dtype() == DType::Int64)
    sort_as<uint64_t, uint64_t, int64_t>(call, keys, values, bits);
  else
    throw Error(std::string(call.op()) + ": values of 64 bits are sorted by keys of 64 bits");
}

}  // namespace moonlet::cuda
