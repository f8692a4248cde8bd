// tensor/cpu/blas_call.h: what surrounds every call of OpenBLAS.
#pragma once

#include <atomic>

#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {

// Around a call of BLAS, which keeps a buffer for each of the calls that ever ran at once. It tries
// for ever to get a new one, so whether there is room is asked before.
class BlasCall {
 public:
  explicit BlasCall(const char* op) {
    constexpr size_t kBuffer = size_t{160} << 20;
    const int calls = ++running_;
    if (calls <= buffers_) return;
    if (!memory::can_map(kBuffer)) {
      --running_;
      memory::note_shortage();
      throw OutOfMemory(text(op, ": out of memory: BLAS could not allocate a buffer"));
    }
    if (calls > buffers_) buffers_ = calls;
  }
  ~BlasCall() { --running_; }
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

 private:
  static inline std::atomic<int> running_{0}, buffers_{0};
  const TeamLimit team_;
};

}  // namespace moonlet::cpu
