// tests/platforms/macos_stand_ins.cpp: what macos_names.h declares, by what Linux has: each does
// what Apple's manual page of it says, as far as the platform layer asks for it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

using mach_port_t = unsigned int;

namespace {

std::mutex ports_mutex;
std::vector<pthread_t> ports;

struct Stack {
  void* lowest = nullptr;
  size_t size = 0;
};
Stack stack_of(pthread_t thread) {
  Stack out;
  pthread_attr_t attributes;
  if (pthread_getattr_np(thread, &attributes) != 0) return out;
  pthread_attr_getstack(&attributes, &out.lowest, &out.size);
  pthread_attr_destroy(&attributes);
  return out;
}

struct Functions {
  const void* cookie;
  int (*write)(void*, const char*, int);
  int (*close)(void*);
};

}  // namespace

extern "C" {

int sysctlbyname(const char* name, void* old, size_t* old_size, void*, size_t) {
  if (std::string_view(name) != "hw.memsize" || *old_size < sizeof(uint64_t)) {
    errno = ENOENT;
    return -1;
  }
  const auto bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::memcpy(old, &bytes, sizeof bytes);
  *old_size = sizeof bytes;
  return 0;
}

int _NSGetExecutablePath(char* buffer, uint32_t* size) {
  const ssize_t length = readlink("/proc/self/exe", buffer, *size);
  if (length < 0 || length >= static_cast<ssize_t>(*size)) return -1;
  buffer[length] = '\0';
  return 0;
}

char*** _NSGetEnviron(void) { return &environ; }

mach_port_t pthread_mach_thread_np(pthread_t thread) {
  const std::lock_guard lock(ports_mutex);
  for (size_t i = 0; i < ports.size(); ++i)
    if (pthread_equal(ports[i], thread) != 0) return static_cast<mach_port_t>(i + 1);
  ports.push_back(thread);
  return static_cast<mach_port_t>(ports.size());
}

pthread_t pthread_from_mach_thread_np(mach_port_t port) {
  const std::lock_guard lock(ports_mutex);
  return port - 1 < ports.size() ? ports[port - 1] : pthread_t();
}

size_t pthread_get_stacksize_np(pthread_t thread) { return stack_of(thread).size; }

void* pthread_get_stackaddr_np(pthread_t thread) {
  const Stack stack = stack_of(thread);
  return static_cast<char*>(stack.lowest) + stack.size;
}

FILE* funopen(const void* cookie, int (*)(void*, char*, int), int (*write)(void*, const char*, int),
              off_t (*)(void*, off_t, int), int (*close)(void*)) {
  const auto hand_on = [](void* to, const char* text, size_t size) -> ssize_t {
    const auto* functions = static_cast<Functions*>(to);
    const int written =
        functions->write(const_cast<void*>(functions->cookie), text, static_cast<int>(size));
    return written < 0 ? 0 : written;  // as fopencookie wants errors
  };
  const auto end = [](void* to) {
    auto* functions = static_cast<Functions*>(to);
    const int result = functions->close(const_cast<void*>(functions->cookie));
    delete functions;
    return result;
  };
  return fopencookie(new Functions{cookie, write, close}, "w", {nullptr, hand_on, nullptr, end});
}

int macos_fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const auto argument = va_arg(rest, intptr_t);
  va_end(rest);
  if (command != 42) return fcntl(file, command, argument);
  // F_PREALLOCATE from the end of the file, whose size stays.
  struct {
    unsigned int flags;
    int mode;
    off_t offset, length, allocated;
  } wanted;
  std::memcpy(&wanted, reinterpret_cast<const void*>(argument), sizeof wanted);
  struct stat now;
  if (wanted.flags != 4 || wanted.mode != 3 || fstat(file, &now) != 0) {
    errno = EINVAL;
    return -1;
  }
  return fallocate(file, FALLOC_FL_KEEP_SIZE, now.st_size, wanted.length);
}
}
