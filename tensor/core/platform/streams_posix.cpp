// tensor/core/platform/streams_posix.cpp: streams by fopencookie of GNU's C library and musl, or
// funopen of the BSDs'.
#include <cerrno>
#include <memory>
#include <new>

#include "tensor/core/platform/streams.h"

namespace moonlet::platform {

const bool kHasFunctionStreams = true;

namespace {

struct Target {
  bool (*write)(void* target, const char* text, size_t size);
  void* target;
};

// What io.write returns then.
template <class Count>
Count refused() {
  errno = EIO;
  return 0;
}

int end(void* cookie) {
  delete static_cast<Target*>(cookie);
  return 0;
}

#ifndef __APPLE__
ssize_t hand_on(void* cookie, const char* text, size_t size) {
  const auto* to = static_cast<Target*>(cookie);
  return to->write(to->target, text, size) ? static_cast<ssize_t>(size) : refused<ssize_t>();
}

std::FILE* open_cookie(Target* target) {
  return fopencookie(target, "w", {nullptr, hand_on, nullptr, end});
}
#else
int hand_on(void* cookie, const char* text, int size) {
  const auto* to = static_cast<Target*>(cookie);
  return to->write(to->target, text, static_cast<size_t>(size)) ? size : refused<int>() - 1;
}

std::FILE* open_cookie(Target* target) { return funopen(target, nullptr, hand_on, nullptr, end); }
#endif

}  // namespace

std::FILE* open_stream(bool (*write)(void*, const char*, size_t), void* target) {
  auto cookie = std::make_unique<Target>(Target{write, target});
  std::FILE* file = open_cookie(cookie.get());
  if (file == nullptr) return nullptr;
  static_cast<void>(cookie.release());  // end deletes it
  std::setvbuf(file, nullptr, _IONBF, 0);
  return file;
}

}  // namespace moonlet::platform
