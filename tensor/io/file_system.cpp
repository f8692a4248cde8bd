// tensor/io/file_system.cpp: the file systems of a thread, and a file in memory.
#include "tensor/io/file_system.h"

#include <cstring>
#include <utility>

namespace moonlet::io {

namespace {
constinit thread_local FileSystem* innermost_files = nullptr;
}  // namespace

FileSystem*& innermost_file_system() noexcept { return innermost_files; }

FileSystem* file_system_of(const std::string& path) noexcept {
  FileSystem* found = innermost_files;
  while (found != nullptr && !found->covers(path)) found = found->before_;
  return found;
}

std::optional<FilePart> mappable_part(const std::string& path) {
  FileSystem* const files = file_system_of(path);
  return files != nullptr ? files->mappable_part(path) : std::nullopt;
}

FileSystemScope::FileSystemScope(FileSystem* files) noexcept
    : files_(files), outer_(innermost_files) {
  if (files == nullptr) return;
  files->before_ = innermost_files;
  innermost_files = files;
}

FileSystemScope::~FileSystemScope() {
  if (files_ == nullptr) return;
  innermost_files = outer_;
  files_->before_ = nullptr;
}

std::optional<uint64_t> MemoryFile::size(const std::string&) {
  return bytes_ ? std::optional<uint64_t>(bytes_->size()) : std::nullopt;
}

void MemoryFile::read(const std::string&, uint64_t at, char* out, size_t count) {
  if (count > 0) std::memcpy(out, bytes_->data() + at, count);
}

void MemoryFile::write(const std::string&, const std::vector<std::string_view>& parts) {
  std::string joined;
  for (const std::string_view part : parts) joined += part;
  written_ = std::move(joined);
  bytes_ = written_;
}

}  // namespace moonlet::io
