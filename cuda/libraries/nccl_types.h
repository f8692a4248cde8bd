// cuda/libraries/nccl_types.h: NCCL's binary interface from version 2.14 on, as far as it is
// called: its header need not be there when this is built.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace moonlet::cuda::nccl {

struct CommRecord;
using Comm = CommRecord*;
struct UniqueId {
  char bytes[128];
};

enum Result : int {
  Success,
  UnhandledCudaError,
  SystemError,
  InternalError,
  InvalidArgument,
  InvalidUsage,
  RemoteError,
  InProgress
};
enum Op : int { Sum, Prod, Max, Min };
enum Type : int { Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, Bfloat16 };

// As version 2.14 has it, which later ones read.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};
inline constexpr int kLeastVersion = 21400;

// The functions: name, parameters. All give a Result but for the texts of errors.
#define MOONLET_NCCL_FUNCTIONS(F)                                                            \
  F(ncclGetVersion, Result, (int* version))                                                  \
  F(ncclGetUniqueId, Result, (UniqueId * id))                                                \
  F(ncclCommInitRankConfig, Result,                                                          \
    (Comm * comm, int size, UniqueId id, int rank, Config* config))                          \
  F(ncclCommAbort, Result, (Comm comm))                                                      \
  F(ncclCommGetAsyncError, Result, (Comm comm, Result * error))                              \
  F(ncclGetErrorString, const char*, (Result result))                                        \
  F(ncclGetLastError, const char*, (Comm comm))                                              \
  F(ncclGroupStart, Result, ())                                                              \
  F(ncclGroupEnd, Result, ())                                                                \
  F(ncclAllReduce, Result,                                                                   \
    (const void* in, void* out, size_t count, Type type, Op op, Comm comm, cudaStream_t))    \
  F(ncclBroadcast, Result,                                                                   \
    (const void* in, void* out, size_t count, Type type, int root, Comm comm, cudaStream_t)) \
  F(ncclReduce, Result,                                                                      \
    (const void* in, void* out, size_t count, Type type, Op op, int root, Comm comm,         \
     cudaStream_t))                                                                          \
  F(ncclAllGather, Result,                                                                   \
    (const void* in, void* out, size_t count, Type type, Comm comm, cudaStream_t))           \
  F(ncclReduceScatter, Result,                                                               \
    (const void* in, void* out, size_t count, Type type, Op op, Comm comm, cudaStream_t))    \
  F(ncclSend, Result,                                                                        \
    (const void* in, size_t count, Type type, int peer, Comm comm, cudaStream_t))            \
  F(ncclRecv, Result, (void* out, size_t count, Type type, int peer, Comm comm, cudaStream_t))

}  // namespace moonlet::cuda::nccl
