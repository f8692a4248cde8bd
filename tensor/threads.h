// tensor/threads.h: how many threads a computation may use, for all libraries at once.
#pragma once

#include <cstdint>

namespace moonlet {

constexpr int64_t kMaxThreads = 1024;

// The threads that work started by the calling thread may use.
int num_threads();
// Sets it. Throws Error unless `count` is from 1 to kMaxThreads.
void set_num_threads(int64_t count);
// Work that this thread starts uses this thread alone, whatever others use.
void use_this_thread_alone();
// Whether the calling thread, and those that work for it, take numbers too small for full precision
// as 0. False where the processor cannot.
bool set_flush_denormal(bool on);

}  // namespace moonlet
