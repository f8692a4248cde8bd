// tensor/cpu/gemm/blas_call.cpp: the buffers of OpenBLAS.
#include "tensor/cpu/gemm/blas_call.h"

#include <vector>

#include "tensor/core/error.h"
#include "tensor/memory/shortage.h"

extern "C" {
// OpenBLAS's own, which no header declares and other libraries do not have.
[[gnu::weak]] void* blas_memory_alloc(int position);
[[gnu::weak]] void blas_memory_free(void* buffer);
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

}  // namespace moonlet::cpu
