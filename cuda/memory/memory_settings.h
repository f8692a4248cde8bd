// cuda/memory/memory_settings.h: what the environment's MOONLET_CUDA_ALLOC says about the caching
// allocator, in the notation of PyTorch's PYTORCH_CUDA_ALLOC_CONF: `name:value,name:value`.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace moonlet::cuda {

inline constexpr size_t kMiB = size_t{1} << 20;

struct MemorySettings {
  // Blocks of this size and more are not split.
  size_t max_split_size = std::numeric_limits<size_t>::max();
  // By how much such a block may be larger than what it is taken for.
  size_t max_non_split_rounding = 20 * kMiB;
  // The share of the device's bytes beyond which cached segments that have not been used for long
  // are given back before new ones are taken; 0 for none.
  double garbage_collection_threshold = 0;
  // By the power of two below a request, from 1 MiB to 32 GiB: into how many steps the way to the
  // next power is divided, to one of which requests are rounded up; 0 for none.
  std::array<size_t, 16> power2_divisions{};

  // The divisions for requests of `bytes`.
  size_t divisions_for(size_t bytes) const;
};

// Throws Error that names the part of `text` that is wrong; an unknown name with those there are.
MemorySettings parse_memory_settings(const std::string& text);
// Those of the environment, read at the first call; throws Error at every one when they are wrong.
const MemorySettings& memory_settings();

}  // namespace moonlet::cuda
