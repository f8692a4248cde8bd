// cuda/loops/cache.h: compiled kernels in files, by the hash of all that they are made of. The
// folder is that of tensor/io/cache_folder.h; "" is none.
//
// A file is used only when it belongs to this user, nobody else may write it, and both what it was
// made of and its contents have the hashes that it says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moonlet::cuda::loops {

std::optional<std::string> read_cached(const std::string& folder, std::string_view key);
// What cannot be written is not kept.
void write_cached(const std::string& folder, std::string_view key, std::string_view contents);

}  // namespace moonlet::cuda::loops
