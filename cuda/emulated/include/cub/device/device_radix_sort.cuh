// cuda/emulated/include/cub/device/device_radix_sort.cuh: the part of CUB's radix sort that the
// backend uses, answered by the host (cub.cpp): a call without temporary storage says how much it
// wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../../cuda_runtime_api.h"

namespace moonlet::emulated {

/// Pairs in two buffers each: which hold them before and which after, and what they are.
struct RadixPairs {
  const void* keys;
  void* keys_out;
  const void* values;
  void* values_out;
  std::size_t key_bytes, value_bytes;
  std::int64_t count;
  int begin_bit, end_bit;
};

/// The call with types erased. Temporary storage and the buffers must be memory of the device, and
/// the storage as large as was said; otherwise the device fails as after an illegal access.
cudaError_t radix_sort_pairs(void* storage, std::size_t& bytes, const RadixPairs& pairs,
                             cudaStream_t stream);

}  // namespace moonlet::emulated

namespace cub {

/// Two buffers, of which `selector` is the current one.
template <class T>
struct DoubleBuffer {
  T* d_buffers[2] = {nullptr, nullptr};
  int selector = 0;
  DoubleBuffer() = default;
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() { return d_buffers[selector]; }
  T* Alternate() { return d_buffers[selector ^ 1]; }
};

struct DeviceRadixSort {
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* storage, std::size_t& bytes, DoubleBuffer<Key>& keys,
                               DoubleBuffer<Value>& values, Count count, int begin_bit = 0,
                               int end_bit = sizeof(Key) * 8, cudaStream_t stream = nullptr) {
    static_assert(std::is_unsigned_v<Key>, "keys are unsigned numbers");
    if (moonlet::emulated::fails("cub::DeviceRadixSort::SortPairs"))
      return moonlet::emulated::failure();
    const cudaError_t error = moonlet::emulated::radix_sort_pairs(
        storage, bytes,
        {keys.Current(), keys.Alternate(), values.Current(), values.Alternate(), sizeof(Key),
         sizeof(Value), static_cast<std::int64_t>(count), begin_bit, end_bit},
        stream);
    if (!error && storage) {
      keys.selector ^= 1;
      values.selector ^= 1;
    }
    return error;
  }
};

}  // namespace cub
