// cuda/emulated/failures.cpp: which call fails, and with what.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cublas_v2.h"
#include "state.h"

namespace moonlet::emulated {
namespace {

struct Failures {
  long number = 0;  // of the call that fails; 0 for none
  const char* kind = "memory";
  cudaError_t error = cudaErrorMemoryAllocation;
  cublasStatus_t status = CUBLAS_STATUS_ALLOC_FAILED;
  bool lost = false;
};

constexpr Failures kKinds[] = {
    {0, "memory", cudaErrorMemoryAllocation, CUBLAS_STATUS_ALLOC_FAILED, false},
    {0, "unknown", cudaErrorUnknown, CUBLAS_STATUS_EXECUTION_FAILED, false},
    {0, "invalid", cudaErrorInvalidValue, CUBLAS_STATUS_INVALID_VALUE, false},
    {0, "lost", cudaErrorLaunchFailure, CUBLAS_STATUS_EXECUTION_FAILED, true},
};

Failures read_environment() {
  const char* number = std::getenv("MOONLET_EMULATED_FAILING_CALL");
  const char* kind = std::getenv("MOONLET_EMULATED_FAILURE");
  if (!number) return {};
  for (Failures found : kKinds) {
    if (kind && std::strcmp(kind, found.kind) != 0) continue;
    found.number = std::strtol(number, nullptr, 10);
    return found;
  }
  std::fprintf(stderr, "MOONLET_EMULATED_FAILURE is memory, unknown, invalid or lost, not '%s'\n",
               kind);
  std::abort();
}

const Failures& failures() {
  static const Failures read = read_environment();
  return read;
}

std::atomic<long> calls{0};

}  // namespace

bool fails(const char* call) {
  const Failures& f = failures();
  if (f.number == 0 || ++calls != f.number) return false;
  std::fprintf(stderr, "emulated: call %ld, %s, fails (%s)\n", f.number, call, f.kind);
  if (f.lost) set_sticky(f.error, "the environment says that this call fails");
  report(f.error);
  return true;
}

cudaError_t failure() { return failures().error; }

cublasStatus_t blas_failure() { return failures().status; }

}  // namespace moonlet::emulated
