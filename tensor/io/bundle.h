// tensor/io/bundle.h: files that lie in one file, behind an executable or by themselves, and are
// read from there: scripts, weights, plugins. Each block of the file has a hash, so that a byte
// that was changed is reported before it is used.
//
// The file: what the bundle lies behind (an executable, or a header alone), the files one after the
// other, and the index: which files there are, and the hashes. The header says where the index is,
// and has its hash. Nothing lies between: each byte belongs to a hash.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/io/file_system.h"
#include "tensor/io/sha256.h"

namespace moonlet::io {

// Of so many bytes of a file a hash is kept.
inline constexpr size_t kBundleBlock = size_t{1} << 17;
// Files of at least this begin at a multiple of it, which is one of all page sizes: they are
// mapped.
inline constexpr size_t kBundleAlignment = size_t{1} << 16;

// Numbers are little-endian. In an executable without a bundle all is zero behind the mark.
struct BundleHeader {
  char mark[32];
  uint64_t position;  // of the header in its file
  uint64_t total;     // the bytes of the file
  uint64_t index_at, index_bytes;
  Digest index_digest;
  Digest digest;  // of all of the header before it

  bool has_mark() const noexcept;
  bool is_empty() const noexcept;
  bool is_whole() const noexcept;
};
static_assert(sizeof(BundleHeader) == 128);
// With the mark alone.
BundleHeader empty_bundle_header() noexcept;

enum class BundleKind : uint32_t { Front, Main, Script, File, Plugin };

struct BundleEntry {
  std::string name;  // a path with '/', neither absolute nor with ".."
  BundleKind kind = BundleKind::File;
  uint64_t at = 0, bytes = 0;
  uint64_t stored = 0;       // with the zero bytes up to the next one
  std::string_view digests;  // of the blocks, one behind the other
};

// The bytes that a bundle lies in.
class BundleSource {
 public:
  virtual ~BundleSource() = default;
  virtual uint64_t size() const = 0;
  // Throws Error with the reason alone.
  virtual void read(uint64_t at, void* out, size_t count) const = 0;
  // Those bytes, where they are in memory; null where they are not.
  virtual const char* in_memory(uint64_t at, size_t count) const {
    return static_cast<void>(at), static_cast<void>(count), nullptr;
  }
  // The file that it can be mapped by, or -1, and where in it the bundle begins.
  virtual int descriptor() const { return -1; }
  virtual uint64_t begin() const { return 0; }
};

class Bundle {
 public:
  // Throws Error, which says what of the bundle is damaged. `title` is what messages call it.
  Bundle(std::unique_ptr<BundleSource> source, const BundleHeader& header, std::string title);
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::string& title() const noexcept { return title_; }
  // Where the header is.
  uint64_t position() const noexcept { return header_.position; }
  // The first is what lies before the files.
  const std::vector<BundleEntry>& entries() const noexcept { return entries_; }
  // The entry of that path, however it is written ("./a//b" is "a/b"); null where there is none.
  const BundleEntry* find(std::string_view path) const;
  // The script that is run; null where there is none.
  const BundleEntry* main() const noexcept { return main_; }

  // Throws Error where a byte of the entry is another than it was. Looks once.
  void verify(const BundleEntry& entry) const;
  // Of an entry that was verified.
  void read(const BundleEntry& entry, uint64_t at, void* out, size_t count) const;
  // All of it, verified.
  std::string bytes_of(const BundleEntry& entry) const;
  // Where it can be mapped, verified.
  std::optional<FilePart> part(const BundleEntry& entry) const;

 private:
  void read_index();
  std::string_view block_of(const BundleEntry& entry, uint64_t block, std::string& buffer) const;
  void compare(const BundleEntry& entry, uint64_t block, const Digest& digest) const;

  const std::unique_ptr<BundleSource> source_;
  const BundleHeader header_;
  const std::string title_;
  std::string index_;
  std::vector<BundleEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  const BundleEntry* main_ = nullptr;
  std::unique_ptr<std::atomic<bool>[]> verified_;
};

// A bundle by itself, or an executable with one.
std::shared_ptr<Bundle> open_bundle(const std::string& path, const char* op = "bundle");
// The same in memory, which stays as it is while it is used. What is a part of a file of the
// system, such as a section of an executable, is mapped by that.
std::shared_ptr<Bundle> bundle_in_memory(std::string_view bytes, const std::string& title);
// That of the executable that has this header; `path` is where it is.
std::shared_ptr<Bundle> bundle_of_executable(const BundleHeader& header, const std::string& path,
                                             const std::string& title);

// That of the executable of this process, where it has one; set once, before the first interpreter.
const std::shared_ptr<const Bundle>& own_bundle() noexcept;
void set_own_bundle(std::shared_ptr<const Bundle> bundle);

// The files of a bundle, and behind them those of another file system, where one is given.
class BundleFiles final : public FileSystem {
 public:
  explicit BundleFiles(std::shared_ptr<const Bundle> bundle,
                       std::unique_ptr<FileSystem> behind = nullptr)
      : bundle_(std::move(bundle)), behind_(std::move(behind)) {}

  bool covers(const std::string& path) const override;
  std::optional<uint64_t> size(const std::string& path) override;
  void read(const std::string& path, uint64_t at, char* out, size_t count) override;
  void write(const std::string& path, const std::vector<std::string_view>& parts) override;
  std::optional<FilePart> mappable_part(const std::string& path) override;

  const std::shared_ptr<const Bundle>& bundle() const noexcept { return bundle_; }

 private:
  const std::shared_ptr<const Bundle> bundle_;
  const std::unique_ptr<FileSystem> behind_;
};

// One file to be bundled: its bytes are those of the file `path`, or `bytes` where that is empty.
struct BundleInput {
  std::string name;
  BundleKind kind = BundleKind::File;
  std::string path, bytes;
};
// Writes a bundle to `path`, whole or not at all: behind the executable, or with an empty name
// behind a header alone.
void write_bundle(const std::string& path, const std::string& executable,
                  const std::vector<BundleInput>& inputs, const char* op);

}  // namespace moonlet::io
