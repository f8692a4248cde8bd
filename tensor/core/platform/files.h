// tensor/core/platform/files.h: files of the system by their descriptors. Paths are UTF-8 where the
// system has an encoding of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moonlet::platform {

enum class FileKind : uint8_t { kRegular, kFolder, kPipe, kSocket, kDevice };
struct FileInfo {
  FileKind kind = FileKind::kDevice;
  uint64_t size = 0;
};

// 0, or the errno of what failed.
int describe(const std::string& path, FileInfo& out);
int describe(int file, FileInfo& out) noexcept;

bool exists(const std::string& path);
bool is_readable(const std::string& path);
// Whether both are there and lead to one file.
bool is_same_file(const std::string& first, const std::string& second);

// For reading; -1 with errno. Does not wait for who writes to a pipe.
int open_to_read(const std::string& path);
int close_file(int file) noexcept;
// As pread(2).
int64_t read_at(int file, void* out, size_t count, uint64_t at) noexcept;
// A file without a name that holds those bytes, at its beginning; -1 with errno.
int open_copy(std::string_view bytes) noexcept;

// The names in a folder, those of folders with a slash at the end; none where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
// Makes a folder and those above it. What the system says where it cannot; empty otherwise.
std::string make_folders(const std::string& path);
// Makes the file, for its user alone, where it is not there.
bool make_private(const std::string& path);

// Writes the parts, one after the other, to a file that has them all or stays as it was; devices
// and pipes are written directly. 0, or an errno. Interrupted when a stop is requested.
int write_file(const std::string& path, const std::vector<std::string_view>& parts);
// Removes the files in between of writes that are going on; for handlers of deadly signals.
void remove_temporary_files() noexcept;

// The position of the last separator of folders; npos where there is none.
size_t last_separator(std::string_view path) noexcept;

// Where LuaRocks installs packages for this user alone, with a separator at the end; empty where
// the environment does not say.
std::string user_rocks();

// A file of the file system, mapped. Errors name it.
class FileToMap {
 public:
  // Throws Error. `make` makes one that is not there, for a mapping that writes.
  FileToMap(const std::string& path, bool writes, bool make);
  FileToMap(const FileToMap&) = delete;
  FileToMap& operator=(const FileToMap&) = delete;
  ~FileToMap();
  // Throws for what is no regular file.
  size_t size() const;
  // With blocks behind it: a write to a page that the disk has no room for would end the process.
  void grow_to(size_t bytes) const;
  // Writes go to the file when it was opened for them, else to pages of this process.
  void* map(size_t bytes) const;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;

  const std::string& path_;
  const bool writes_;
  intptr_t file_;
};

// Pages of this process that show a part of an open file, whose position the system can map; null
// with errno.
void* map_part(int file, uint64_t at, size_t bytes) noexcept;

// The open file, and the position in it, whose bytes memory that nobody can write to shows, such as
// a section of an executable; who asks closes it. The descriptor is -1 where no one file does.
struct FileBehind {
  int file = -1;
  uint64_t at = 0;
};
FileBehind file_behind(const void* data, size_t bytes);
void unmap(void* data, size_t bytes) noexcept;

}  // namespace moonlet::platform
