// tensor/io/file_system.h: where the files are that this thread reads and writes: those of the
// system, unless something else stands for them, such as a host's or a string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moonlet::io {

// A part of a file of the system.
struct FilePart {
  int descriptor;  // of who gives it
  uint64_t at, bytes;
};

class FileSystem {
 public:
  FileSystem() = default;
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // Whether files of that path are here; the others are where they were before.
  virtual bool covers(const std::string& path) const = 0;
  // The bytes of a file; nothing when there is none. These throw Error with the reason alone.
  virtual std::optional<uint64_t> size(const std::string& path) = 0;
  // `count` bytes from position `at`, which lie within the size.
  virtual void read(const std::string& path, uint64_t at, char* out, size_t count) = 0;
  // Makes or replaces the file, whole or not at all.
  virtual void write(const std::string& path, const std::vector<std::string_view>& parts) = 0;
  // Where a file lies whose bytes never change, so that what reads them needs no copy. Nothing
  // where that is not so.
  virtual std::optional<FilePart> mappable_part(const std::string& path) {
    static_cast<void>(path);
    return {};
  }

 private:
  friend class FileSystemScope;
  friend FileSystem* file_system_of(const std::string& path) noexcept;
  FileSystem* before_ = nullptr;
};

// What stands for the file on this thread; null for a file of the system.
FileSystem* file_system_of(const std::string& path) noexcept;
// Its part of a file of the system, where that can be mapped.
std::optional<FilePart> mappable_part(const std::string& path);

// While alive, files are in `files` where that covers them; null changes nothing.
class FileSystemScope {
 public:
  explicit FileSystemScope(FileSystem* files) noexcept;
  ~FileSystemScope();
  FileSystemScope(const FileSystemScope&) = delete;
  FileSystemScope& operator=(const FileSystemScope&) = delete;

 private:
  FileSystem* const files_;
  FileSystem* const outer_;
};

// Where the innermost one of this thread is kept, null for the system's files: for who changes it
// often.
FileSystem*& innermost_file_system() noexcept;

// One file of a given path, in memory.
class MemoryFile final : public FileSystem {
 public:
  explicit MemoryFile(std::string path, std::optional<std::string_view> bytes = {})
      : path_(std::move(path)), bytes_(bytes) {}

  bool covers(const std::string& path) const override { return path == path_; }
  std::optional<uint64_t> size(const std::string& path) override;
  void read(const std::string& path, uint64_t at, char* out, size_t count) override;
  void write(const std::string& path, const std::vector<std::string_view>& parts) override;
  // What it was made with, or what was written since.
  std::optional<std::string_view> bytes() const { return bytes_; }

 private:
  const std::string path_;
  std::string written_;
  std::optional<std::string_view> bytes_;
};

}  // namespace moonlet::io
