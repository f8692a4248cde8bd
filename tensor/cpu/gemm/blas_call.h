// tensor/cpu/gemm/blas_call.h: what surrounds every call of OpenBLAS.
#pragma once

#include <atomic>

#include "tensor/cpu/common/parallel.h"

namespace moonlet::cpu {

// Around a call of BLAS, which keeps a buffer for each of the calls that ever ran at once. It tries
// for ever to get a new one, so there is one for every call before it begins.
class BlasCall {
 public:
  explicit BlasCall(const char* op) {
    const int calls = ++running_;
    if (calls > buffers_) get_buffers(op, calls);
  }
  ~BlasCall() { --running_; }
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

 private:
  static void get_buffers(const char* op, int calls);

  static inline std::atomic<int> running_{0}, buffers_{0};
  const TeamLimit team_;
};

}  // namespace moonlet::cpu
