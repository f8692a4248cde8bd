// cuda/runtime/device.cpp: guards, errors, streams and cuBLAS handles.
#include "cuda/runtime/device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/memory/allocator.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/fork.h"
#include "cuda/runtime/streams.h"

namespace moonlet::cuda {

namespace {

// Errors after which the process can do nothing more on its devices.
bool is_final(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable: return true;
    default: return false;
  }
}

// What ended the use of each device.
class Lost {
 public:
  // The first reason of a device is kept.
  void note(int device, const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_.emplace(device, why);
    any_.store(true, std::memory_order_release);
  }
  // Throws when that one was lost.
  void refuse(int device, const char* op) {
    if (!any_.load(std::memory_order_acquire)) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    const auto found = why_.find(device);
    check(found == why_.end(), op, ": ", device_of(device),
          " cannot be used any more in this process since ",
          found == why_.end() ? std::string() : found->second);
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<int, std::string> why_;
};
Lost& lost() {
  static Lost& it = *new Lost;
  return it;
}

// One handle per device of a thread.
struct Handles {
  std::vector<cublasHandle_t> list;
  ~Handles() {
    for (cublasHandle_t handle : list)
      if (handle) cublasDestroy(handle);
  }
};

// Memory that the runtime or a library wants may be in the cache; who catches the error tries
// again.
[[noreturn]] void out_of_memory(const char* op) {
  caching_allocator().empty_cache();
  throw OutOfMemory(text(op, ": out of memory on the CUDA device"));
}

}  // namespace

void ensure(cudaError_t error, const char* op) {
  if (error == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();
  if (error == cudaErrorMemoryAllocation) out_of_memory(op);
  const std::string what = text(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
  if (!is_final(error)) fail(op, ": CUDA error ", what);
  int device = 0;
  cudaGetDevice(&device);
  lost().refuse(device, op);
  lost().note(device, text(op, " met ", what));
  // Kernels run after their op has returned, so who meets the error need not be who made it.
  fail(op, ": CUDA error ", what,
       waits_for_kernels() ? ""
                           : "; this op or one before it made it: with MOONLET_CUDA_SYNC=1 in "
                             "the environment the one that did is named");
}

void ensure(cublasStatus_t status, const char* op) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  cudaGetLastError();  // which the library has left, and the next launch would be blamed for
  if (status == CUBLAS_STATUS_ALLOC_FAILED) out_of_memory(op);
  fail(op, ": cuBLAS error ", cublasGetStatusName(status));
}

bool waits_for_kernels() noexcept {
  static const bool waits = [] {
    const char* value = std::getenv("MOONLET_CUDA_SYNC");
    return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
  }();
  return waits;
}

void launched(const char* op, cudaStream_t stream) {
  ensure(cudaGetLastError(), op);
  if (!waits_for_kernels() || is_captured(stream)) return;
  int device = 0;
  ensure(cudaGetDevice(&device), op);
  wait_for(stream, device, op);
}

void wait_for(cudaStream_t stream, int device, const char* op) {
  refuse_in_capture(stream, op, "what waits for the device");
  count_wait();
  ensure(cudaStreamSynchronize(stream), op);
  throw_reported(device, op);
}

void wait_for_device(int device, const char* op) {
  const DeviceGuard guard(device, op);
  check(!is_captured_on(device), op,
        ": what waits for the device cannot be captured in a CUDA graph");
  count_wait();
  ensure(cudaDeviceSynchronize(), op);
  throw_reported(device, op);
}

cudaStream_t current_stream(int device) noexcept {
  return stream_of(moonlet::current_stream(device));
}

DeviceGuard::DeviceGuard(int index, const char* op) {
  lost().refuse(index, op);
  ensure(cudaGetDevice(&before_), op);
  changed_ = before_ != index;
  if (changed_) ensure(cudaSetDevice(index), op);
}
DeviceGuard::~DeviceGuard() {
  // The one before may be lost, which is no fault of what comes next.
  if (changed_ && cudaSetDevice(before_) != cudaSuccess) cudaGetLastError();
}

cublasHandle_t Call::blas() const {
  static thread_local Handles handles;
  const auto at = static_cast<size_t>(device_.index);
  if (handles.list.size() <= at) handles.list.resize(at + 1, nullptr);
  cublasHandle_t& handle = handles.list[at];
  if (!handle) {
    cublasStatus_t status = cublasCreate(&handle);
    if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED) {
      // Its memory may be in our cache.
      caching_allocator().empty_cache();
      cudaGetLastError();
      status = cublasCreate(&handle);
    }
    ensure(status, op_);
  }
  ensure(cublasSetStream(handle, stream_), op_);
  return handle;
}

unsigned blocks_for(int64_t count) {
  constexpr int64_t kMaxBlocks = 1 << 16;
  return static_cast<unsigned>(std::clamp<int64_t>((count + kBlock - 1) / kBlock, 1, kMaxBlocks));
}

}  // namespace moonlet::cuda
