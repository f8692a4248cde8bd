// cuda/loops/cache.cpp: reads and writes the files of compiled kernels.
#include "cuda/loops/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "tensor/io/sha256.h"

namespace moonlet::cuda::loops {

using io::Digest;
using io::sha256;
using io::to_hex;

namespace {

constexpr std::string_view kMagic = "moonlet kernel 1";
constexpr size_t kHead = 16 + 2 * sizeof(Digest);
constexpr off_t kMostBytes = off_t{64} << 20;

std::string path_of(const std::string& folder, const Digest& key) {
  return folder + "/" + to_hex(key) + ".cubin";
}

class File {
 public:
  File(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return descriptor_ >= 0; }

  // Nothing where someone else could have written it.
  std::optional<std::string> contents() const {
    struct stat about;
    if (::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
    if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      return std::nullopt;
    if (about.st_size > kMostBytes) return std::nullopt;
    std::string out(static_cast<size_t>(about.st_size), '\0');
    for (size_t done = 0; done < out.size();) {
      const ssize_t got = ::read(descriptor_, out.data() + done, out.size() - done);
      if (got <= 0) return std::nullopt;
      done += static_cast<size_t>(got);
    }
    return out;
  }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
      if (done <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(done));
    }
    return true;
  }

 private:
  int descriptor_;
};

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::optional<std::string> read_cached(const std::string& folder, std::string_view key) {
  if (folder.empty()) return std::nullopt;
  const Digest hash = sha256(key);
  const File file(path_of(folder, hash), O_RDONLY);
  if (!file) return std::nullopt;
  std::optional<std::string> all = file.contents();
  if (!all || all->size() < kHead) return std::nullopt;
  const std::string_view bytes = *all;
  const std::string_view body = bytes.substr(kHead);
  const bool whole = bytes.substr(0, kMagic.size()) == kMagic &&
                     bytes.substr(16, 32) == as_text(hash) &&
                     bytes.substr(48, 32) == as_text(sha256(body));
  if (!whole) return std::nullopt;
  return std::string(body);
}

void write_cached(const std::string& folder, std::string_view key, std::string_view contents) {
  if (folder.empty()) return;
  std::error_code ignored;
  if (std::filesystem::create_directories(folder, ignored))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  const Digest hash = sha256(key);
  const std::string path = path_of(folder, hash);
  std::string temporary = path + ".XXXXXX";
  const int made = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (made < 0) return;
  ::close(made);
  bool written = false;
  {
    const File file(temporary, O_WRONLY);
    written = file && file.write(kMagic) && file.write(as_text(hash)) &&
              file.write(as_text(sha256(contents))) && file.write(contents);
  }
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) ::unlink(temporary.c_str());
}

}  // namespace moonlet::cuda::loops
