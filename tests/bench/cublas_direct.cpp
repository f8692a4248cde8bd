// tests/bench/cublas_direct.cpp: the speed of matrix products by cuBLAS itself, without anything of
// Moonlet, for scripts/gpu_check to compare with. A line for each product, as gpu_check's sections
// print them: result, the name, TFLOP/s, each behind a tab. usage: cublas_direct CALLS ROUNDS
// (DTYPE M N K)...   (m, k) times (k, n), the best of ROUNDS
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void fail(const char* what, int code) {
  std::fprintf(stderr, "cublas_direct: %s: error %d\n", what, code);
  std::exit(1);
}
void ensure(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(what, status);
}
void ensure(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what, status);
}

struct Kind {
  const char* name;
  cudaDataType type;
  cublasComputeType_t compute;
  int bytes;
  uint64_t one;  // its bits
};
constexpr Kind kKinds[] = {
    {"float32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, 0x3f800000},
    {"float64", CUDA_R_64F, CUBLAS_COMPUTE_64F, 8, 0x3ff0000000000000},
    {"float16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 2, 0x3c00},
    {"bfloat16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2, 0x3f80},
};
const Kind& kind_of(const char* name) {
  for (const Kind& kind : kKinds)
    if (std::strcmp(kind.name, name) == 0) return kind;
  std::fprintf(stderr, "cublas_direct: there is no dtype '%s'\n", name);
  std::exit(2);
}

int64_t count_of(const char* text) {
  const int64_t count = std::atoll(text);
  if (count > 0 && count <= INT32_MAX) return count;
  std::fprintf(stderr, "cublas_direct: a positive number is expected, got '%s'\n", text);
  std::exit(2);
}

// A matrix of ones on the device: what is there is copied behind itself until it is full.
char* ones(const Kind& kind, int64_t count) {
  void* memory = nullptr;
  const auto bytes = static_cast<size_t>(count * kind.bytes);
  ensure(cudaMalloc(&memory, bytes), "cudaMalloc");
  auto* const out = static_cast<char*>(memory);
  size_t made = static_cast<size_t>(kind.bytes);
  ensure(cudaMemcpy(out, &kind.one, made, cudaMemcpyHostToDevice), "cudaMemcpy");
  for (; made < bytes; made *= 2)
    ensure(cudaMemcpy(out + made, out, std::min(made, bytes - made), cudaMemcpyDeviceToDevice),
           "cudaMemcpy");
  return out;
}

// Row-major matrices are transposed ones for cuBLAS, which takes them in the other order.
void multiply(cublasHandle_t handle, const Kind& kind, const char* a, const char* b, char* c, int m,
              int n, int k) {
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
  const bool wide = kind.compute == CUBLAS_COMPUTE_64F;
  ensure(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k,
                      wide ? static_cast<const void*>(&one64) : &one32, b, kind.type, n, a,
                      kind.type, k, wide ? static_cast<const void*>(&zero64) : &zero32, c,
                      kind.type, n, kind.compute, CUBLAS_GEMM_DEFAULT),
         "cublasGemmEx");
}

double seconds_of(cublasHandle_t handle, const Kind& kind, int calls, int rounds, int m, int n,
                  int k) {
  char* const a = ones(kind, int64_t{m} * k);
  char* const b = ones(kind, int64_t{k} * n);
  char* const c = ones(kind, int64_t{m} * n);
  multiply(handle, kind, a, b, c, m, n, k);
  ensure(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) multiply(handle, kind, a, b, c, m, n, k);
    ensure(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round == 0 || took.count() < best) best = took.count();
  }
  for (char* matrix : {a, b, c}) ensure(cudaFree(matrix), "cudaFree");
  return best / calls;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7 || argc % 4 != 3) {
    std::fprintf(stderr, "usage: cublas_direct CALLS ROUNDS (DTYPE M N K)...\n");
    return 2;
  }
  const auto calls = static_cast<int>(count_of(argv[1]));
  const auto rounds = static_cast<int>(count_of(argv[2]));
  cublasHandle_t handle = nullptr;
  ensure(cublasCreate(&handle), "cublasCreate");
  for (int i = 3; i < argc; i += 4) {
    const Kind& kind = kind_of(argv[i]);
    const auto m = static_cast<int>(count_of(argv[i + 1]));
    const auto n = static_cast<int>(count_of(argv[i + 2]));
    const auto k = static_cast<int>(count_of(argv[i + 3]));
    const double seconds = seconds_of(handle, kind, calls, rounds, m, n, k);
    std::printf("result\tproduct %dx%dx%d, %s\t%.6g\tTFLOP/s\n", m, n, k, kind.name,
                2.0 * m * n * k / seconds / 1e12);
    std::fflush(stdout);
  }
  ensure(cublasDestroy(handle), "cublasDestroy");
  return 0;
}
