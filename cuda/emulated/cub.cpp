// cuda/emulated/cub.cpp: CUB's calls over the host's own algorithms.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cub/device/device_radix_sort.cuh"
#include "queue.h"
#include "state.h"

namespace moonlet::emulated {
namespace {

std::uint64_t number_at(const void* data, std::size_t bytes, std::int64_t i) {
  std::uint64_t out = 0;
  std::memcpy(&out, static_cast<const char*>(data) + static_cast<std::size_t>(i) * bytes, bytes);
  return out;
}

/// Temporary storage has a size that is no round number, so that a wrong one shows.
std::size_t storage_for(const RadixPairs& p) {
  return 1025 + static_cast<std::size_t>(p.count / 64) * p.key_bytes;
}

bool on_device(const void* pointer, std::size_t bytes) {
  if (bytes == 0) return true;
  const int device = owner(pointer, bytes);
  return device >= 0 && may_access(device);
}

bool in_reach(const RadixPairs& p) {
  const auto count = static_cast<std::size_t>(p.count);
  return on_device(p.keys, count * p.key_bytes) && on_device(p.keys_out, count * p.key_bytes) &&
         on_device(p.values, count * p.value_bytes) &&
         on_device(p.values_out, count * p.value_bytes);
}

void sort_now(const RadixPairs& p) {
  const int bits = p.end_bit - p.begin_bit;
  const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::vector<std::uint64_t> digits(static_cast<std::size_t>(p.count));
  std::vector<std::int64_t> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < p.count; ++i)
    digits[static_cast<std::size_t>(i)] =
        p.begin_bit < 64 ? number_at(p.keys, p.key_bytes, i) >> p.begin_bit & mask : 0;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return digits[static_cast<std::size_t>(a)] < digits[static_cast<std::size_t>(b)];
  });
  auto* keys = static_cast<char*>(p.keys_out);
  auto* values = static_cast<char*>(p.values_out);
  for (const std::int64_t from : order) {
    const auto at = static_cast<std::size_t>(from);
    std::memcpy(keys, static_cast<const char*>(p.keys) + at * p.key_bytes, p.key_bytes);
    std::memcpy(values, static_cast<const char*>(p.values) + at * p.value_bytes, p.value_bytes);
    keys += p.key_bytes;
    values += p.value_bytes;
  }
}

}  // namespace

cudaError_t radix_sort_pairs(void* storage, std::size_t& bytes, const RadixPairs& p,
                             cudaStream_t stream) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!valid_stream(stream)) return report(cudaErrorInvalidResourceHandle);
  if (p.count < 0 || p.begin_bit < 0 || p.end_bit < p.begin_bit ||
      p.end_bit > static_cast<int>(8 * p.key_bytes))
    return report(cudaErrorInvalidValue);
  if (!storage) {
    bytes = storage_for(p);
    return cudaSuccess;
  }
  if (bytes < storage_for(p)) return report(cudaErrorInvalidValue);
  if (!on_device(storage, bytes) || !in_reach(p)) {
    set_sticky(cudaErrorIllegalAddress, "CUB was given memory outside every device allocation");
    return report(cudaErrorIllegalAddress);
  }
  enqueue(stream, [p] { sort_now(p); });
  return cudaSuccess;
}

}  // namespace moonlet::emulated
