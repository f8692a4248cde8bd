// cuda/emulated/failures.h: calls of the runtime and of cuBLAS that fail because the environment
// says so: MOONLET_EMULATED_FAILING_CALL=N is the number of the call, counted from 1 over the
// process, and MOONLET_EMULATED_FAILURE what it returns: "memory" (the standard), "unknown",
// "invalid", or "lost", after which the device answers nothing else. The call does nothing. A line
// on stderr names it. Included by the headers that declare the calls; the runtime itself calls its
// functions directly.
#pragma once

namespace moonlet::emulated {

/// Counts a call; whether it is to fail.
bool fails(const char* call);
/// What calls that fail return; the thread's last error is that.
cudaError_t failure();

}  // namespace moonlet::emulated

#ifndef MOONLET_EMULATED_RUNTIME
#define MOONLET_CALL(name, ...) \
  (::moonlet::emulated::fails(#name) ? ::moonlet::emulated::failure() : name(__VA_ARGS__))
#define cudaGetDeviceCount(...) MOONLET_CALL(cudaGetDeviceCount, __VA_ARGS__)
#define cudaSetDevice(...) MOONLET_CALL(cudaSetDevice, __VA_ARGS__)
#define cudaGetDevice(...) MOONLET_CALL(cudaGetDevice, __VA_ARGS__)
#define cudaGetDeviceProperties(...) MOONLET_CALL(cudaGetDeviceProperties, __VA_ARGS__)
#define cudaDeviceGetAttribute(...) MOONLET_CALL(cudaDeviceGetAttribute, __VA_ARGS__)
#define cudaDeviceGetStreamPriorityRange(...) \
  MOONLET_CALL(cudaDeviceGetStreamPriorityRange, __VA_ARGS__)
#define cudaDeviceSynchronize() MOONLET_CALL(cudaDeviceSynchronize)
#define cudaDeviceReset() MOONLET_CALL(cudaDeviceReset)
#define cudaDeviceCanAccessPeer(...) MOONLET_CALL(cudaDeviceCanAccessPeer, __VA_ARGS__)
#define cudaDeviceEnablePeerAccess(...) MOONLET_CALL(cudaDeviceEnablePeerAccess, __VA_ARGS__)
#define cudaDriverGetVersion(...) MOONLET_CALL(cudaDriverGetVersion, __VA_ARGS__)
#define cudaRuntimeGetVersion(...) MOONLET_CALL(cudaRuntimeGetVersion, __VA_ARGS__)
#define cudaMalloc(...) MOONLET_CALL(cudaMalloc, __VA_ARGS__)
#define cudaFree(...) MOONLET_CALL(cudaFree, __VA_ARGS__)
#define cudaMallocAsync(...) MOONLET_CALL(cudaMallocAsync, __VA_ARGS__)
#define cudaFreeAsync(...) MOONLET_CALL(cudaFreeAsync, __VA_ARGS__)
#define cudaMallocHost(...) MOONLET_CALL(cudaMallocHost, __VA_ARGS__)
#define cudaHostAlloc(...) MOONLET_CALL(cudaHostAlloc, __VA_ARGS__)
#define cudaFreeHost(...) MOONLET_CALL(cudaFreeHost, __VA_ARGS__)
#define cudaMemGetInfo(...) MOONLET_CALL(cudaMemGetInfo, __VA_ARGS__)
#define cudaPointerGetAttributes(...) MOONLET_CALL(cudaPointerGetAttributes, __VA_ARGS__)
#define cudaMemcpy(...) MOONLET_CALL(cudaMemcpy, __VA_ARGS__)
#define cudaMemcpyAsync(...) MOONLET_CALL(cudaMemcpyAsync, __VA_ARGS__)
#define cudaMemcpy2D(...) MOONLET_CALL(cudaMemcpy2D, __VA_ARGS__)
#define cudaMemcpy2DAsync(...) MOONLET_CALL(cudaMemcpy2DAsync, __VA_ARGS__)
#define cudaMemcpyPeer(...) MOONLET_CALL(cudaMemcpyPeer, __VA_ARGS__)
#define cudaMemcpyPeerAsync(...) MOONLET_CALL(cudaMemcpyPeerAsync, __VA_ARGS__)
#define cudaMemset(...) MOONLET_CALL(cudaMemset, __VA_ARGS__)
#define cudaMemsetAsync(...) MOONLET_CALL(cudaMemsetAsync, __VA_ARGS__)
#define cudaStreamCreate(...) MOONLET_CALL(cudaStreamCreate, __VA_ARGS__)
#define cudaStreamCreateWithFlags(...) MOONLET_CALL(cudaStreamCreateWithFlags, __VA_ARGS__)
#define cudaStreamCreateWithPriority(...) MOONLET_CALL(cudaStreamCreateWithPriority, __VA_ARGS__)
#define cudaStreamDestroy(...) MOONLET_CALL(cudaStreamDestroy, __VA_ARGS__)
#define cudaStreamSynchronize(...) MOONLET_CALL(cudaStreamSynchronize, __VA_ARGS__)
#define cudaStreamQuery(...) MOONLET_CALL(cudaStreamQuery, __VA_ARGS__)
#define cudaStreamWaitEvent(...) MOONLET_CALL(cudaStreamWaitEvent, __VA_ARGS__)
#define cudaStreamBeginCapture(...) MOONLET_CALL(cudaStreamBeginCapture, __VA_ARGS__)
#define cudaStreamEndCapture(...) MOONLET_CALL(cudaStreamEndCapture, __VA_ARGS__)
#define cudaStreamIsCapturing(...) MOONLET_CALL(cudaStreamIsCapturing, __VA_ARGS__)
#define cudaGraphInstantiate(...) MOONLET_CALL(cudaGraphInstantiate, __VA_ARGS__)
#define cudaGraphLaunch(...) MOONLET_CALL(cudaGraphLaunch, __VA_ARGS__)
#define cudaGraphDestroy(...) MOONLET_CALL(cudaGraphDestroy, __VA_ARGS__)
#define cudaGraphExecDestroy(...) MOONLET_CALL(cudaGraphExecDestroy, __VA_ARGS__)
#define cudaLaunchHostFunc(...) MOONLET_CALL(cudaLaunchHostFunc, __VA_ARGS__)
#define cudaEventCreate(...) MOONLET_CALL(cudaEventCreate, __VA_ARGS__)
#define cudaEventCreateWithFlags(...) MOONLET_CALL(cudaEventCreateWithFlags, __VA_ARGS__)
#define cudaEventDestroy(...) MOONLET_CALL(cudaEventDestroy, __VA_ARGS__)
#define cudaEventRecord(...) MOONLET_CALL(cudaEventRecord, __VA_ARGS__)
#define cudaEventSynchronize(...) MOONLET_CALL(cudaEventSynchronize, __VA_ARGS__)
#define cudaEventQuery(...) MOONLET_CALL(cudaEventQuery, __VA_ARGS__)
#define cudaEventElapsedTime(...) MOONLET_CALL(cudaEventElapsedTime, __VA_ARGS__)
#define cudaLaunchKernel(...) MOONLET_CALL(cudaLaunchKernel, __VA_ARGS__)
#define cudaLibraryLoadData(...) MOONLET_CALL(cudaLibraryLoadData, __VA_ARGS__)
#define cudaLibraryUnload(...) MOONLET_CALL(cudaLibraryUnload, __VA_ARGS__)
#define cudaLibraryGetKernel(...) MOONLET_CALL(cudaLibraryGetKernel, __VA_ARGS__)
#define cudaFuncSetAttribute(...) MOONLET_CALL(cudaFuncSetAttribute, __VA_ARGS__)
#define cudaOccupancyMaxActiveBlocksPerMultiprocessor(...) \
  MOONLET_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, __VA_ARGS__)
#endif
