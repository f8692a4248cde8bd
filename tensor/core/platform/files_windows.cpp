// tensor/core/platform/files_windows.cpp: files, folders and mapped files of Windows. What is
// opened does not keep others from renaming or deleting a file, as far as the system allows that.
#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/text_windows.h"
#include "tensor/io/files.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::platform {
namespace {

constexpr DWORD kShare = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr int kAttempts = 100;

// Closed at the end.
struct Handle {
  HANDLE it;
  explicit Handle(HANDLE handle) : it(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close(); }
  bool is_open() const { return it != INVALID_HANDLE_VALUE; }
  bool close() {
    const HANDLE before = std::exchange(it, INVALID_HANDLE_VALUE);
    return before == INVALID_HANDLE_VALUE || CloseHandle(before) != 0;
  }
};

HANDLE open_handle(const std::string& path, DWORD access, DWORD how, DWORD flags) {
  return CreateFileW(wide(path).c_str(), access, kShare, nullptr, how, flags, nullptr);
}

int last_error() noexcept { return error_number(GetLastError()); }

int describe_handle(HANDLE file, FileInfo& out) noexcept {
  const DWORD type = GetFileType(file);
  if (type != FILE_TYPE_DISK) {
    out = {type == FILE_TYPE_PIPE ? FileKind::kPipe : FileKind::kDevice, 0};
    return 0;
  }
  BY_HANDLE_FILE_INFORMATION info;
  if (!GetFileInformationByHandle(file, &info)) return last_error();
  const bool is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  out.kind = is_folder ? FileKind::kFolder : FileKind::kRegular;
  out.size = uint64_t{info.nFileSizeHigh} << 32 | info.nFileSizeLow;
  return 0;
}

bool is_folder(const std::string& path) {
  const DWORD attributes = GetFileAttributesW(wide(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

HANDLE handle_of(int file) noexcept { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

// A descriptor of the C library for a handle, which it takes over.
int descriptor_of(HANDLE handle) noexcept {
  const int file = _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_BINARY | _O_NOINHERIT);
  if (file < 0) CloseHandle(handle);
  return file;
}

// The file is gone when nobody has it open any more, or stays.
bool set_deleted(HANDLE file, bool deleted) noexcept {
  FILE_DISPOSITION_INFO info{};
  info.DeleteFile = deleted ? TRUE : FALSE;
  return SetFileInformationByHandle(file, FileDispositionInfo, &info, sizeof info) != 0;
}

}  // namespace

int describe(const std::string& path, FileInfo& out) {
  // FILE_FLAG_BACKUP_SEMANTICS opens folders, too.
  const Handle file(open_handle(path, 0, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS));
  return file.is_open() ? describe_handle(file.it, out) : last_error();
}

int describe(int file, FileInfo& out) noexcept { return describe_handle(handle_of(file), out); }

bool exists(const std::string& path) {
  return GetFileAttributesW(wide(path).c_str()) != INVALID_FILE_ATTRIBUTES;
}

bool is_readable(const std::string& path) { return _waccess(wide(path).c_str(), 4) == 0; }

bool is_same_file(const std::string& first, const std::string& second) {
  std::error_code ignored;
  return std::filesystem::equivalent(wide(first), wide(second), ignored);
}

int open_to_read(const std::string& path) {
  if (is_folder(path)) {
    errno = EISDIR;
    return -1;
  }
  const HANDLE file = open_handle(path, GENERIC_READ, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
  if (file != INVALID_HANDLE_VALUE) return descriptor_of(file);
  errno = last_error();
  return -1;
}

int close_file(int file) noexcept { return _close(file); }

int64_t read_at(int file, void* out, size_t count, uint64_t at) noexcept {
  OVERLAPPED position{};
  position.Offset = static_cast<DWORD>(at);
  position.OffsetHigh = static_cast<DWORD>(at >> 32);
  DWORD got = 0;
  if (ReadFile(handle_of(file), out, static_cast<DWORD>(count), &got, &position)) return got;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  errno = last_error();
  return -1;
}

int open_copy(std::string_view bytes) noexcept {
  wchar_t folder[MAX_PATH + 1], name[MAX_PATH + 1];
  if (GetTempPathW(std::size(folder), folder) == 0 ||
      GetTempFileNameW(folder, L"mnl", 0, name) == 0) {
    errno = last_error();
    return -1;
  }
  const HANDLE file =
      CreateFileW(name, GENERIC_READ | GENERIC_WRITE, kShare, nullptr, CREATE_ALWAYS,
                  FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  while (file != INVALID_HANDLE_VALUE && !bytes.empty()) {
    DWORD written = 0;
    const auto part = static_cast<DWORD>(std::min(bytes.size(), io::kMaxAtOnce));
    if (!WriteFile(file, bytes.data(), part, &written, nullptr)) {
      errno = last_error();
      CloseHandle(file);
      return -1;
    }
    bytes.remove_prefix(written);
  }
  if (file == INVALID_HANDLE_VALUE) {
    errno = last_error();
    return -1;
  }
  SetFilePointer(file, 0, nullptr, FILE_BEGIN);
  return descriptor_of(file);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  WIN32_FIND_DATAW found;
  const HANDLE search = FindFirstFileW((wide(folder) + L"/*").c_str(), &found);
  if (search == INVALID_HANDLE_VALUE) return out;
  do {
    std::string name = narrow(found.cFileName);
    if (name == "." || name == "..") continue;
    if ((found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) name += '/';
    out.push_back(std::move(name));
  } while (FindNextFileW(search, &found));
  FindClose(search);
  return out;
}

std::string make_folders(const std::string& path) {
  if (path.empty()) return std::strerror(ENOENT);
  for (size_t end = 0; end != path.npos;) {
    end = path.find_first_of("/\\", end + 1);
    const std::string part = path.substr(0, end);
    if (part.back() == ':' || CreateDirectoryW(wide(part).c_str(), nullptr) || is_folder(part))
      continue;
    const DWORD code = GetLastError();
    if (end == path.npos || code != ERROR_ACCESS_DENIED)
      return code == ERROR_ALREADY_EXISTS ? std::strerror(ENOTDIR)
                                          : std::strerror(error_number(code));
  }
  return {};
}

// Files of a user's own folders are for that user alone.
bool make_private(const std::string& path) {
  const Handle file(open_handle(path, GENERIC_WRITE, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL));
  return file.is_open();
}

size_t last_separator(std::string_view path) noexcept { return path.find_last_of("/\\"); }

std::string user_rocks() {
  const char* const folder = variable("APPDATA");
  return folder != nullptr ? std::string(folder) + "\\luarocks\\" : "";
}

// --- writing -------------------------------------------------------------------------------------

namespace {

// 0 or an errno.
int write_parts(HANDLE file, const std::vector<std::string_view>& parts) {
  for (std::string_view part : parts) {
    while (!part.empty()) {
      stop_if_requested();
      DWORD written = 0;
      const auto count = static_cast<DWORD>(std::min(part.size(), io::kMaxAtOnce));
      if (!WriteFile(file, part.data(), count, &written, nullptr)) return last_error();
      part.remove_prefix(written);
    }
  }
  return 0;
}

// A file in the same folder, which is gone with this process until it has been written.
int write_beside(const std::string& path, const std::string& beside,
                 const std::vector<std::string_view>& parts) {
  Handle file(open_handle(beside, GENERIC_WRITE | DELETE, CREATE_NEW, FILE_ATTRIBUTE_NORMAL));
  if (!file.is_open()) return last_error();
  const bool goes_by_itself = set_deleted(file.it, true);
  int error = 0;
  try {
    error = write_parts(file.it, parts);
  } catch (const Interrupted&) {
    file.close();
    if (!goes_by_itself) DeleteFileW(wide(beside).c_str());
    throw;
  }
  if (error == 0 && !FlushFileBuffers(file.it)) error = last_error();
  if (error == 0 && goes_by_itself && !set_deleted(file.it, false)) error = last_error();
  if (!file.close() && error == 0) error = last_error();
  constexpr DWORD kHow = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
  if (error == 0 && !MoveFileExW(wide(beside).c_str(), wide(path).c_str(), kHow))
    error = last_error();
  if (error != 0) DeleteFileW(wide(beside).c_str());
  return error;
}

int write_directly(const std::string& path, const std::vector<std::string_view>& parts) {
  const Handle file(open_handle(path, GENERIC_WRITE, OPEN_EXISTING, 0));
  return file.is_open() ? write_parts(file.it, parts) : last_error();
}

}  // namespace

int write_file(const std::string& path, const std::vector<std::string_view>& parts) {
  FileInfo info;
  const int known = describe(path, info);
  if (known == 0 && info.kind == FileKind::kFolder) return EISDIR;
  if (known == 0 && info.kind != FileKind::kRegular) return write_directly(path, parts);
  int error = EEXIST;
  for (int attempt = 0; error == EEXIST && attempt < kAttempts; ++attempt)
    error = write_beside(
        path, path + ".tmp" + std::to_string(process_id()) + "-" + std::to_string(attempt), parts);
  return error;
}

// They go by themselves.
void remove_temporary_files() noexcept {}

// --- mapped files --------------------------------------------------------------------------------

FileToMap::FileToMap(const std::string& path, bool writes, bool make)
    : path_(path), writes_(writes) {
  check(!is_folder(path), "cannot map '", path, "': it is not a regular file");
  const HANDLE file = open_handle(path, writes ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ,
                                  writes && make ? OPEN_ALWAYS : OPEN_EXISTING, 0);
  if (file == INVALID_HANDLE_VALUE) fail("cannot open '", path, "': ", std::strerror(last_error()));
  file_ = reinterpret_cast<intptr_t>(file);
}

FileToMap::~FileToMap() { CloseHandle(reinterpret_cast<HANDLE>(file_)); }

void FileToMap::refuse(const std::string& reason) const {
  fail("cannot map '", path_, "': ", reason);
}

size_t FileToMap::size() const {
  FileInfo info;
  if (describe_handle(reinterpret_cast<HANDLE>(file_), info) != 0 ||
      info.kind != FileKind::kRegular)
    refuse("it is not a regular file");
  return static_cast<size_t>(info.size);
}

void FileToMap::grow_to(size_t bytes) const {
  LARGE_INTEGER end;
  end.QuadPart = static_cast<int64_t>(bytes);
  const auto file = reinterpret_cast<HANDLE>(file_);
  if (!SetFilePointerEx(file, end, nullptr, FILE_BEGIN) || !SetEndOfFile(file))
    refuse(std::strerror(last_error()));
}

void* FileToMap::map(size_t bytes) const {
  const auto file = reinterpret_cast<HANDLE>(file_);
  const HANDLE mapping =
      CreateFileMappingW(file, nullptr, writes_ ? PAGE_READWRITE : PAGE_WRITECOPY,
                         static_cast<DWORD>(bytes >> 32), static_cast<DWORD>(bytes), nullptr);
  if (mapping == nullptr) refuse(std::strerror(last_error()));
  void* data = MapViewOfFile(mapping, writes_ ? FILE_MAP_WRITE : FILE_MAP_COPY, 0, 0, bytes);
  const int error = data == nullptr ? last_error() : 0;
  CloseHandle(mapping);  // the view keeps it
  if (error != 0) refuse(std::strerror(error));
  return data;
}

void* map_part(int file, uint64_t at, size_t bytes) noexcept {
  const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
  const HANDLE mapping = CreateFileMappingW(handle, nullptr, PAGE_WRITECOPY, 0, 0, nullptr);
  if (mapping == nullptr) return errno = last_error(), nullptr;
  void* data = MapViewOfFile(mapping, FILE_MAP_COPY, static_cast<DWORD>(at >> 32),
                             static_cast<DWORD>(at), bytes);
  if (data == nullptr) errno = last_error();
  CloseHandle(mapping);  // the view keeps it
  return data;
}

// Sections of a program are not where its file has them.
FileBehind file_behind(const void*, size_t) { return {}; }

void unmap(void* data, size_t bytes) noexcept {
  if (bytes > 0) UnmapViewOfFile(data);
}

}  // namespace moonlet::platform
