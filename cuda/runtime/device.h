// cuda/runtime/device.h: what every kernel entry needs: the guard that makes the tensor's device
// current, the stream, errors of the runtime as exceptions, the cuBLAS handle and short-lived
// buffers.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/core/tensor.h"

namespace moonlet::cuda {

// The kind of the backend's devices.
inline DeviceType device_type() { return device_type_from_name("cuda"); }
inline Device device_of(int index) { return {device_type(), static_cast<int8_t>(index)}; }

// Throw Error (OutOfMemory when memory is short) naming `op` unless the call went well.
void ensure(cudaError_t error, const char* op);
void ensure(cublasStatus_t status, const char* op);

// Whether every kernel is waited for, so that errors name the op that made them: the environment
// says MOONLET_CUDA_SYNC=1.
bool waits_for_kernels() noexcept;
// After a launch: throws when that failed, or, where kernels are waited for, the kernel.
void launched(const char* op, cudaStream_t stream);
// Waits for all work of a stream of that device and throws what went wrong in it, or what kernels
// before reported. All waits of the host are made here or, of a whole device, in wait_for_device.
void wait_for(cudaStream_t stream, int device, const char* op);
void wait_for_device(int device, const char* op);

// The current stream of a device (tensor/runtime/streams.h) as the runtime knows it.
cudaStream_t current_stream(int device) noexcept;

// Makes a device current and restores the one before.
class DeviceGuard {
 public:
  DeviceGuard(int index, const char* op);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
  bool changed_;
};

// One kernel entry at work: device, stream and name.
class Call {
 public:
  Call(const Tensor& x, const char* op)
      : op_(op),
        device_(x.device()),
        guard_(x.device().index, op),
        stream_(current_stream(x.device().index)) {}
  const char* op() const { return op_; }
  Device device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  // Throws when the launch before it failed.
  void done() const { launched(op_, stream_); }
  // Waits for the stream and throws what went wrong in it.
  void wait() const { wait_for(stream_, device_.index, op_); }
  // A contiguous tensor on this device for the time of the call.
  Tensor scratch(const Dims& sizes, DType dtype) const {
    return empty_plain(sizes, Options{dtype, device_}, op_);
  }
  // The handle of this thread and device, set to the stream.
  cublasHandle_t blas() const;

 private:
  const char* op_;
  Device device_;
  DeviceGuard guard_;
  cudaStream_t stream_;
};

inline constexpr int kBlock = 256;

// Blocks for `count` threads that loop with the grid's stride; at least one.
unsigned blocks_for(int64_t count);

// x itself when contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x);
// x as contiguous elements of that dtype.
Tensor converted(const Tensor& x, DType dtype);

// Copies memory between host and device or between devices: both contiguous, of one dtype and
// shape. Returns when `out` may be read: by the host, or in the current stream.
void transfer(Tensor& out, const Tensor& in);

// Runs fill(t) with a contiguous t: y itself, or a temporary copied into y afterwards.
void copy_back(Tensor& y, const Tensor& whole);
template <class Fill>
void with_contiguous(Tensor& y, Fill&& fill) {
  if (y.is_contiguous()) return fill(y);
  Tensor whole = contiguous(y);
  fill(whole);
  copy_back(y, whole);
}

}  // namespace moonlet::cuda
