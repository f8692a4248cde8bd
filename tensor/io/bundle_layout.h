// tensor/io/bundle_layout.h: what who reads a bundle and who writes one agree on (bundle.h).
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "tensor/io/bundle.h"

// The index: the version, then for each entry, from the front of the file to its end, the kind and
// the bytes of its name (4 each), its bytes and those it takes (8 each), its name, and the hashes.
namespace moonlet::io::layout {

inline constexpr uint32_t kVersion = 1;
inline constexpr int64_t kMostName = 4096;
// To hash less costs less than a thread.
inline constexpr int64_t kPairsOfThread = 4;

inline uint64_t blocks_of(uint64_t bytes) {
  return bytes / kBundleBlock + (bytes % kBundleBlock != 0 ? 1 : 0);
}

// The path without empty parts and those that are ".".
inline std::string normalized(std::string_view path) {
  std::string out;
  const bool absolute = path.starts_with('/');
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (absolute || !out.empty()) out += '/';
    out += part;
  }
  return out;
}

// Whether an entry may be called so: also where it is taken out again, it stays in its folder.
inline bool is_name(std::string_view name) {
  if (name.empty() || name.size() > static_cast<size_t>(kMostName) || name.starts_with('/') ||
      normalized(name) != name || name.find('\0') != name.npos)
    return false;
  for (size_t from = 0; from <= name.size();) {
    const size_t end = std::min(name.find('/', from), name.size());
    if (name.substr(from, end - from) == "..") return false;
    from = end + 1;
  }
  return true;
}

// Zeroes of a block, which begins at `from`, what the header takes: that changes when all is known.
inline void clear_header(std::string& block, uint64_t from, uint64_t position) {
  const uint64_t begin = std::max(from, position);
  const uint64_t end = std::min(from + block.size(), position + sizeof(BundleHeader));
  if (begin < end) std::memset(block.data() + (begin - from), 0, static_cast<size_t>(end - begin));
}

// Puts the hash of all before it into the header.
void close_header(BundleHeader& header);

}  // namespace moonlet::io::layout
