// tests/platforms/macos_names.h: included before a file of the platform layer, makes of Linux what
// the layer sees of macOS: its macros, and its functions as Apple's manual pages declare them, for
// which macos_stand_ins.cpp has code. Linux's own functions that macOS lacks cannot be named any
// more. The headers of the system and of C++ come first, as they are Linux's.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <glob.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {

// <sys/sysctl.h>
int sysctlbyname(const char* name, void* old, size_t* old_size, void* fresh, size_t fresh_size);

// <mach-o/dyld.h>, <crt_externs.h>
int _NSGetExecutablePath(char* buffer, uint32_t* size);
char*** _NSGetEnviron(void);

// <pthread.h>
using mach_port_t = unsigned int;
mach_port_t pthread_mach_thread_np(pthread_t thread);
pthread_t pthread_from_mach_thread_np(mach_port_t port);
size_t pthread_get_stacksize_np(pthread_t thread);
void* pthread_get_stackaddr_np(pthread_t thread);  // its highest address

// <stdio.h>
FILE* funopen(const void* cookie, int (*read)(void*, char*, int),
              int (*write)(void*, const char*, int), off_t (*seek)(void*, off_t, int),
              int (*close)(void*));

// <fcntl.h>
struct fstore_t {
  unsigned int fst_flags;
  int fst_posmode;
  off_t fst_offset, fst_length, fst_bytesalloc;
};
int macos_fcntl(int file, int command, ...);
}

#define F_PREALLOCATE 42
#define F_ALLOCATEALL 4
#define F_PEOFPOSMODE 3
#define fcntl macos_fcntl
#define st_mtimespec st_mtim

#define __APPLE__ 1
#undef __linux__
#undef __GLIBC__
#undef O_TMPFILE
#undef MADV_HUGEPAGE
#undef CLOCK_MONOTONIC_COARSE
#pragma GCC poison accept4 environ fopencookie getauxval getrandom memfd_create mremap on_exit pipe2
#pragma GCC poison posix_fallocate pthread_getattr_np pthread_getattr_default_np sigtimedwait \
    st_mtim
#pragma GCC poison sysinfo syscall
