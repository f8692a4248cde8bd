// tensor/core/platform/files_posix.cpp: files, folders and mapped files of POSIX systems.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"

namespace moonlet::platform {
namespace {

FileInfo info_of(const struct stat& info) {
  const mode_t mode = info.st_mode;
  const FileKind kind = S_ISREG(mode)    ? FileKind::kRegular
                        : S_ISDIR(mode)  ? FileKind::kFolder
                        : S_ISFIFO(mode) ? FileKind::kPipe
                        : S_ISSOCK(mode) ? FileKind::kSocket
                                         : FileKind::kDevice;
  return {kind, static_cast<uint64_t>(info.st_size)};
}

int open_unnamed() noexcept {
#ifdef __linux__
  return ::memfd_create("moonlet", MFD_CLOEXEC);
#else
  char name[] = "/tmp/moonletXXXXXX";
  const int file = ::mkostemp(name, O_CLOEXEC);
  if (file >= 0) ::unlink(name);
  return file;
#endif
}

// 0 or an errno.
int allocate_blocks(int file, off_t bytes) noexcept {
#ifdef __APPLE__
  fstore_t wanted{F_ALLOCATEALL, F_PEOFPOSMODE, 0, bytes, 0};
  if (::fcntl(file, F_PREALLOCATE, &wanted) != 0) return errno;
  return ::ftruncate(file, bytes) != 0 ? errno : 0;
#elif defined(__EMSCRIPTEN__)
  // Blocks are only allocated where files are in memory.
  return ::ftruncate(file, bytes) != 0 ? errno : 0;
#else
  return ::posix_fallocate(file, 0, bytes);
#endif
}

}  // namespace

int describe(const std::string& path, FileInfo& out) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return errno;
  out = info_of(info);
  return 0;
}

int describe(int file, FileInfo& out) noexcept {
  struct stat info;
  if (::fstat(file, &info) != 0) return errno;
  out = info_of(info);
  return 0;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
bool is_readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

bool is_same_file(const std::string& first, const std::string& second) {
  std::error_code ignored;
  return std::filesystem::equivalent(first, second, ignored);
}

int open_to_read(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int close_file(int file) noexcept { return ::close(file); }

int64_t read_at(int file, void* out, size_t count, uint64_t at) noexcept {
  return ::pread(file, out, count, static_cast<off_t>(at));
}

int open_copy(std::string_view bytes) noexcept {
  const int file = open_unnamed();
  if (file < 0) return -1;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      ::close(file);
      errno = error;
      return -1;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

std::vector<std::string> names_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    out.push_back(at->path().filename().string());
    if (at->is_directory(ignored)) out.back() += '/';
  }
  return out;
}

std::string make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? error.message() : std::string();
}

bool make_private(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  struct stat info;
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode)) ::fchmod(file, 0600);
  ::close(file);
  return true;
}

size_t last_separator(std::string_view path) noexcept { return path.rfind('/'); }

std::string user_rocks() {
  const char* const home = std::getenv("HOME");
  return home != nullptr ? std::string(home) + "/.luarocks/" : "";
}

// --- mapped files --------------------------------------------------------------------------------

FileToMap::FileToMap(const std::string& path, bool writes, bool make)
    : path_(path), writes_(writes) {
  const int access = writes ? O_RDWR | (make ? O_CREAT : 0) : O_RDONLY;
  // Without waiting, for a pipe that nobody writes to; it is refused later.
  file_ = ::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  check(file_ >= 0, "cannot open '", path, "': ", std::strerror(errno));
}

FileToMap::~FileToMap() { ::close(static_cast<int>(file_)); }

void FileToMap::refuse(const std::string& reason) const {
  fail("cannot map '", path_, "': ", reason);
}

size_t FileToMap::size() const {
  FileInfo info;
  if (describe(static_cast<int>(file_), info) != 0 || info.kind != FileKind::kRegular)
    refuse("it is not a regular file");
  return static_cast<size_t>(info.size);
}

void FileToMap::grow_to(size_t bytes) const {
  const int problem = allocate_blocks(static_cast<int>(file_), static_cast<off_t>(bytes));
  if (problem != 0) refuse(std::strerror(problem));
}

void* FileToMap::map(size_t bytes) const {
  // A read-only mapping refuses writes before they reach the pages; private pages make sure that
  // no way past that check could change the file or end the process.
  const int flags = writes_ ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, static_cast<int>(file_), 0);
  if (data == MAP_FAILED) refuse(std::strerror(errno));
  return data;
}

void* map_part(int file, uint64_t at, size_t bytes) noexcept {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file,
                      static_cast<off_t>(at));
  return data == MAP_FAILED ? nullptr : data;
}

FileBehind file_behind(const void* data, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(data);
  std::ifstream maps("/proc/self/maps");
  // 7f1c-7f1d r--p 00002000 08:01 1234    /usr/bin/app
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0, at = 0, number = 0;
    char rights[5] = "";
    int path = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %*x:%*x %llu %n", &begin, &end, rights, &at,
                    &number, &path) != 5)
      continue;
    if (from < begin || from >= end) continue;
    if (bytes > end - from || number == 0 || rights[1] == 'w') return {};
    const int file = open_to_read(line.substr(static_cast<size_t>(path)));
    struct stat info;
    // Another file may have that name by now.
    if (file >= 0 && ::fstat(file, &info) == 0 && info.st_ino == number)
      return {file, at + (from - begin)};
    if (file >= 0) close_file(file);
    return {};
  }
  return {};
}

void unmap(void* data, size_t bytes) noexcept {
  if (bytes > 0) ::munmap(data, bytes);
}

}  // namespace moonlet::platform
