// tensor/io/read_file.cpp: regular files, read in parts or whole, gzip too.
#include "tensor/io/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include <zlib.h>

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/io/file_system.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

const char* text_of(platform::FileKind kind) {
  switch (kind) {
    case platform::FileKind::kFolder: return "Is a directory";
    case platform::FileKind::kPipe: return "it is a pipe, not a regular file";
    case platform::FileKind::kSocket: return "it is a socket, not a regular file";
    default: return "it is a device, not a regular file";
  }
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

int Descriptor::close() {
  const int fd = release();
  return fd >= 0 ? platform::close_file(fd) : 0;
}

InputFile::InputFile(std::string path, const char* op)
    : path_(std::move(path)),
      op_(op),
      files_(file_system_of(path_)),
      fd_(files_ == nullptr ? platform::open_to_read(path_) : -1) {
  if (files_ != nullptr) {
    open_given();
    return;
  }
  if (fd_.get() < 0)
    refuse(errno == ENXIO ? "it is a socket, not a regular file" : std::strerror(errno));
  platform::FileInfo info;
  if (const int error = platform::describe(fd_.get(), info)) refuse(std::strerror(error));
  if (info.kind != platform::FileKind::kRegular) refuse(text_of(info.kind));
  size_ = info.size;
}

void InputFile::refuse(std::string_view reason) const { fail(op_, ": '", path_, "': ", reason); }

void InputFile::open_given() {
  std::optional<uint64_t> size;
  try {
    size = files_->size(path_);
  } catch (const Error& e) {
    refuse(e.what());
  }
  if (!size) refuse(std::strerror(ENOENT));
  size_ = *size;
}

int InputFile::release() {
  if (files_ == nullptr) return fd_.release();
  std::string bytes(static_cast<size_t>(size_), '\0');
  try {
    files_->read(path_, 0, bytes.data(), bytes.size());
  } catch (const Error& e) {
    refuse(e.what());
  }
  const int copy = platform::open_copy(bytes);
  if (copy < 0) refuse(std::strerror(errno));
  return copy;
}

void InputFile::read(uint64_t at, void* out, size_t count) const {
  char* to = static_cast<char*>(out);
  if (files_ != nullptr) {
    stop_if_requested();
    if (at > size_ || count > size_ - at) fail("the file is cut off");
    return files_->read(path_, at, to, count);
  }
  while (count > 0) {
    stop_if_requested();
    const int64_t got = platform::read_at(fd_.get(), to, std::min(count, kMaxAtOnce), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::strerror(errno));
    if (got == 0) fail("it became shorter while it was read");
    to += got;
    at += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
}

namespace {

// Throws Error with the reason alone.
std::string read_all(int fd, uint64_t size, ReadBudget& budget, uint64_t weight) {
  gzFile file = gzdopen(fd, "rb");
  if (file == nullptr) {
    platform::close_file(fd);
    throw std::bad_alloc();
  }
  struct Closer {
    gzFile file;
    ~Closer() { gzclose(file); }
  } closer{file};
  constexpr unsigned kBlock = 1u << 18;
  gzbuffer(file, kBlock);
  std::string data;
  // What is not compressed is as long as its file.
  if (gzdirect(file) != 0 && budget.has(size * weight)) data.reserve(size);
  std::vector<char> block(kBlock);
  for (;;) {
    stop_if_requested();
    const int count = gzread(file, block.data(), kBlock);
    if (count < 0) fail(gzip_reason(file));
    const auto more = static_cast<size_t>(count);
    // A string that grows holds its bytes twice while it moves them.
    const size_t room = more > data.capacity() - data.size() ? 2 * data.capacity() + more : 0;
    budget.take(more * weight + room);
    data.append(block.data(), more);
    budget.give_back(room);
    if (count < static_cast<int>(kBlock)) break;
  }
  int code = Z_OK;
  gzerror(file, &code);
  if (code != Z_OK && code != Z_STREAM_END) fail(gzip_reason(file));
  return data;
}

}  // namespace

std::string read_for(InputFile& input, ReadBudget& budget, uint64_t weight) {
  try {
    return read_all(input.release(), input.size(), budget, weight);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    input.refuse(e.what());
  }
}

std::string read_file(const std::string& path, const char* op, int64_t max_bytes, uint64_t weight) {
  InputFile input(path, op);
  ReadBudget budget(input.size(), max_bytes);
  return read_for(input, budget, weight);
}

uint32_t checksum(std::string_view bytes, uint32_t before) noexcept {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace moonlet::io
