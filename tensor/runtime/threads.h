// tensor/runtime/threads.h: how many threads a computation may use, for all libraries at once.
#pragma once

#include <cstdint>

namespace moonlet {

constexpr int64_t kMaxThreads = 1024;

// The threads that work started by the calling thread may use: its own number, or that of the
// interpreter that runs on it.
int num_threads();
// Sets it. Throws Error unless `count` is from 1 to kMaxThreads.
void set_num_threads(int64_t count);
// Throws it, in the name of `what`.
void check_thread_count(int64_t count, const char* what);
// Work that this thread starts uses this thread alone, whatever others use.
void use_this_thread_alone();
// Whether the calling thread, and those that work for it, take numbers too small for full precision
// as 0. False where the processor cannot. In an interpreter that runs it is the interpreter's.
bool set_flush_denormal(bool on);

// Both, as an interpreter keeps them while it does not run.
struct ThreadSettings {
  int count;
  bool flush_denormal;
};
ThreadSettings thread_settings() noexcept;
void install(const ThreadSettings& settings) noexcept;

}  // namespace moonlet
