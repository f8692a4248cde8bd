// cuda/device.cpp: guards, errors, streams and cuBLAS handles.
#include "cuda/device.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace moonlet::cuda {

namespace {

thread_local cudaStream_t thread_stream = nullptr;

// One handle per device of a thread.
struct Handles {
  std::vector<cublasHandle_t> list;
  ~Handles() {
    for (cublasHandle_t handle : list)
      if (handle) cublasDestroy(handle);
  }
};

}  // namespace

void ensure(cudaError_t error, const char* op) {
  if (error == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();
  if (error == cudaErrorMemoryAllocation)
    throw OutOfMemory(text(op, ": out of memory on the CUDA device"));
  fail(op, ": CUDA error ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

void ensure(cublasStatus_t status, const char* op) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory(text(op, ": out of memory on the CUDA device"));
  fail(op, ": cuBLAS error ", cublasGetStatusName(status));
}

cudaStream_t current_stream() noexcept { return thread_stream; }

StreamGuard::StreamGuard(cudaStream_t stream) noexcept : before_(thread_stream) {
  thread_stream = stream;
}
StreamGuard::~StreamGuard() { thread_stream = before_; }

DeviceGuard::DeviceGuard(int index, const char* op) {
  ensure(cudaGetDevice(&before_), op);
  changed_ = before_ != index;
  if (changed_) ensure(cudaSetDevice(index), op);
}
DeviceGuard::~DeviceGuard() {
  if (changed_) cudaSetDevice(before_);
}

cublasHandle_t Call::blas() const {
  static thread_local Handles handles;
  const auto at = static_cast<size_t>(device_.index);
  if (handles.list.size() <= at) handles.list.resize(at + 1, nullptr);
  cublasHandle_t& handle = handles.list[at];
  if (!handle) ensure(cublasCreate(&handle), op_);
  ensure(cublasSetStream(handle, stream_), op_);
  return handle;
}

unsigned blocks_for(int64_t count) {
  constexpr int64_t kMaxBlocks = 1 << 16;
  return static_cast<unsigned>(std::clamp<int64_t>((count + kBlock - 1) / kBlock, 1, kMaxBlocks));
}

}  // namespace moonlet::cuda
