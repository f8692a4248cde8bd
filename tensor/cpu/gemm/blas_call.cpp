// tensor/cpu/gemm/blas_call.cpp: the buffers of OpenBLAS, and its choice of kernels.
#include "tensor/cpu/gemm/blas_call.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "moonlet_config.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/process.h"
#include "tensor/memory/shortage.h"

extern "C" {
// OpenBLAS's own, which no header declares and other libraries do not have.
[[gnu::weak]] void* blas_memory_alloc(int position);
[[gnu::weak]] void blas_memory_free(void* buffer);
[[gnu::weak]] char* gotoblas_corename();
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] extern char gotoblas_SKYLAKEX, gotoblas_HASWELL;
}

namespace moonlet::cpu {

namespace {

constexpr size_t kBuffer = size_t{160} << 20;

// Makes OpenBLAS keep `count` buffers, by taking them all at once: a small product needs none, so
// that one call ran does not say that there is one. False where there is no room.
bool reserve(int count) {
  std::vector<void*> taken;
  bool is_room = true;
  while (is_room && static_cast<int>(taken.size()) < count) {
    is_room = memory::can_map(kBuffer);
    if (!blas_memory_alloc || !blas_memory_free) break;
    if (is_room) taken.push_back(blas_memory_alloc(0));
  }
  for (void* buffer : taken) blas_memory_free(buffer);
  return is_room;
}

}  // namespace

void BlasCall::get_buffers(const char* op, int calls) {
  if (!reserve(calls)) {
    --running_;
    memory::note_shortage();
    throw OutOfMemory(text(op, ": out of memory: BLAS could not allocate a buffer"));
  }
  int before = buffers_;
  while (before < calls && !buffers_.compare_exchange_weak(before, calls)) {
  }
}

namespace {

#if defined(__x86_64__) && MOONLET_OPENBLAS
constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// The best kernels that the processor can run and the library has, by name, or none.
const char* best_core() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (wide && &gotoblas_SKYLAKEX != nullptr) return "SkylakeX";
  return &gotoblas_HASWELL != nullptr ? "Haswell" : nullptr;
}

// OpenBLAS chooses its kernels when it is loaded, by a list of processors, and for one that is
// younger than the list those of 2004, with which products take five times as long. It is told
// better, as a user may tell it, while programs and libraries are loaded: before there are threads.
bool choose_core() {
  if (!gotoblas_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit) return false;
  if (std::getenv(kCoreVariable) || std::strcmp(gotoblas_corename(), "Prescott") != 0) return false;
  const char* const core = best_core();
  if (!core || !platform::set_variable(kCoreVariable, core)) return false;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  platform::set_variable(kCoreVariable, nullptr);
  return true;
}

[[maybe_unused]] const bool chose_core = choose_core();
#endif

}  // namespace

}  // namespace moonlet::cpu
