// tensor/io/files.h: files read in parts or whole, and written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moonlet::io {

// The bytes that are read or written between two looks at the stop flag.
inline constexpr size_t kMaxAtOnce = size_t{1} << 25;

class FileSystem;

// A descriptor that is closed at the end; -1 stands for none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  // What close(2) gives; 0 when there is none.
  int close();
  // Hands the descriptor over to the caller.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A regular file that is open for reading. Folders, pipes, sockets and devices are refused at once:
// nothing waits for a writer or reads without end.
class InputFile {
 public:
  // Throws Error "OP: 'PATH': reason", as all functions of this header do that have an `op`, which
  // is a string literal.
  InputFile(std::string path, const char* op);

  uint64_t size() const { return size_; }
  // Whether it is a file of the system, and no other's (tensor/io/file_system.h).
  bool is_of_system() const { return files_ == nullptr; }
  // The `count` bytes from position `at`. Throws Error with the reason alone, also
  // when the file has become shorter.
  void read(uint64_t at, void* out, size_t count) const;
  // A descriptor of the file, or of a copy in memory where it is none of the system.
  int release();
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  void open_given();

  std::string path_;
  const char* op_;
  FileSystem* files_;
  Descriptor fd_;
  uint64_t size_ = 0;
};

// The bytes of a regular file, decompressed when it is gzip. Throws also for a gzip file that is
// cut short or damaged, and for one that holds more than `max_bytes`, or where that is 0 than
// read_limit() lets a file of its size hold; a byte counts as `weight`, for what is made of it.
std::string read_file(const std::string& path, const char* op = "read_file", int64_t max_bytes = 0,
                      uint64_t weight = 1);

class ReadBudget;

// The same, for a reader that goes on with `budget`: `weight` bytes are taken from it for each byte
// that is read.
std::string read_for(InputFile& file, ReadBudget& budget, uint64_t weight = 1);

// The CRC-32 of bytes, as zip archives hold it of their entries, behind bytes that have the sum
// `before`.
uint32_t checksum(std::string_view bytes, uint32_t before = 0) noexcept;

// Removes the temporary files of writes that are going on; for handlers of deadly signals.
void remove_temporary_files() noexcept;

// Writes `parts` one after the other to `path` so that a reader sees the old file or the whole new
// one, and a process that ends by any signal that can be caught leaves no other file behind: a file
// without a name in the same folder, fsync, then the name. (SIGKILL or a power cut may leave the
// whole new file as PATH.tmpPID-N between the two steps in which an existing file is replaced, or a
// part of it where the file system has no files without a name.) Keeps the mode of a file that
// exists and writes through symbolic links; devices and pipes are written directly.
void write_file(const std::string& path, const std::vector<std::string_view>& parts,
                const char* op = "write_file");

}  // namespace moonlet::io
