// interp/files.cpp: whole-file reading (gzip too) and writing that never leaves half a file.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "interp/entry.h"
#include "interp/system.h"
#include "tensor/error.h"

namespace moonlet {
namespace {

[[noreturn]] void fail_errno(const char* op, const std::string& path, int error) {
  fail(op, ": '", path, "': ", std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

// Removes the temporary file unless it was renamed into place.
class TemporaryName {
 public:
  explicit TemporaryName(std::string name) : name_(std::move(name)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (!kept_) ::unlink(name_.c_str());
  }
  void keep() { kept_ = true; }

 private:
  std::string name_;
  bool kept_ = false;
};

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    data.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int write_parts(int fd, const std::vector<std::string_view>& parts) {
  for (const std::string_view part : parts) {
    if (const int error = write_all(fd, part)) return error;
  }
  return 0;
}

std::string resolve_links(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result(resolved);
  std::free(resolved);
  return result;
}

// Best effort: makes the rename itself last through a power cut.
void sync_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

int open_temporary(const std::string& path, std::string* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = path + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    const int fd = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

void write_directly(const std::string& path, const std::vector<std::string_view>& parts) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0) fail_errno("write_file", path, errno);
  if (const int error = write_parts(fd.get(), parts)) fail_errno("write_file", path, error);
  if (fd.close() != 0) fail_errno("write_file", path, errno);
}

std::string gzip_reason(gzFile file) {
  int code = Z_OK;
  const char* text = gzerror(file, &code);
  if (code == Z_ERRNO) return std::strerror(errno);
  if (code == Z_BUF_ERROR) return "gzip data is cut short";
  // zlib puts its own name for the file in front of the text.
  const char* colon = std::strstr(text, ": ");
  return std::string("damaged gzip data: ") + (colon != nullptr ? colon + 2 : text);
}

}  // namespace

void write_file(const std::string& path, const std::vector<std::string_view>& parts) {
  check_files_allowed("write_file", path);
  struct stat existing;
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) fail_errno("write_file", path, EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) return write_directly(path, parts);
  const std::string target = exists ? resolve_links(path) : path;
  std::string name;
  Descriptor fd(open_temporary(target, &name));
  if (fd.get() < 0) fail_errno("write_file", path, errno);
  TemporaryName temporary(name);
  if (exists) (void)!::fchmod(fd.get(), existing.st_mode & 07777);
  if (const int error = write_parts(fd.get(), parts)) fail_errno("write_file", path, error);
  if (::fsync(fd.get()) != 0) fail_errno("write_file", path, errno);
  if (fd.close() != 0) fail_errno("write_file", path, errno);
  if (::rename(name.c_str(), target.c_str()) != 0) fail_errno("write_file", path, errno);
  temporary.keep();
  sync_folder(target);
}

std::string read_file(const std::string& path) {
  check_files_allowed("read_file", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("read_file", path, errno);
  gzFile file = gzdopen(fd, "rb");
  if (file == nullptr) {
    ::close(fd);
    throw std::bad_alloc();
  }
  struct Closer {
    gzFile file;
    ~Closer() { gzclose(file); }
  } closer{file};
  constexpr unsigned kBlock = 1u << 18;
  gzbuffer(file, kBlock);
  std::string data;
  std::vector<char> block(kBlock);
  for (;;) {
    const int count = gzread(file, block.data(), kBlock);
    if (count < 0) fail("read_file: '", path, "': ", gzip_reason(file));
    data.append(block.data(), static_cast<size_t>(count));
    if (count < static_cast<int>(kBlock)) break;
  }
  int code = Z_OK;
  gzerror(file, &code);
  if (code != Z_OK && code != Z_STREAM_END) fail("read_file: '", path, "': ", gzip_reason(file));
  return data;
}

}  // namespace moonlet
