// tensor/core/platform/static_mutex.h: a mutex that is there before any code runs, and never ends.
#pragma once

#include <mutex>

namespace moonlet::platform {

#ifdef _WIN32
// The pthread library of mingw-w64 makes its mutexes at the start, when others may lock them
// already. This is a SRWLOCK.
class StaticMutex {
 public:
  constexpr StaticMutex() = default;
  StaticMutex(const StaticMutex&) = delete;
  StaticMutex& operator=(const StaticMutex&) = delete;
  void lock() noexcept;
  void unlock() noexcept;

 private:
  void* lock_ = nullptr;
};
#else
using StaticMutex = std::mutex;
#endif

}  // namespace moonlet::platform
