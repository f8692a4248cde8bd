// cuda/runtime/quiet_guard.h: the guard of a device where nothing may throw: in what frees, and
// where an error is dealt with already.
#pragma once

#include <cuda_runtime.h>

namespace moonlet::cuda {

// Makes a device current and restores the one before; `good` says whether it is.
class QuietDeviceGuard {
 public:
  explicit QuietDeviceGuard(int index) noexcept {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = -1;
    good_ = before_ >= 0 && cudaSetDevice(index) == cudaSuccess;
    if (!good_) cudaGetLastError();
  }
  ~QuietDeviceGuard() {
    if (before_ >= 0 && cudaSetDevice(before_) != cudaSuccess) cudaGetLastError();
  }
  QuietDeviceGuard(const QuietDeviceGuard&) = delete;
  QuietDeviceGuard& operator=(const QuietDeviceGuard&) = delete;
  bool good() const noexcept { return good_; }

 private:
  int before_ = -1;
  bool good_ = false;
};

}  // namespace moonlet::cuda
