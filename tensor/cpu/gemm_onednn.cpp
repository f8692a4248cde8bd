// tensor/cpu/gemm_onednn.cpp: float32 products by oneDNN, each thread a part of the result. The
// threads are ours, because every one of them must block signals: kernels of oneDNN 2.x point the
// stack pointer at a buffer on the heap, and the frame of a handler would lie in front of it.
#include "tensor/cpu/gemm_onednn.h"

#include <atomic>

#include "moonlet_config.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/signals.h"
#include "tensor/memory/shortage.h"
#include "tensor/tensor.h"

#if MOONLET_ONEDNN
#include <dnnl.h>
#endif

namespace moonlet::cpu {

#if MOONLET_ONEDNN
namespace {

// The multiplications that a thread is worth waking for.
constexpr int64_t kGemmGrain = int64_t{1} << 18;

void compute(const Product<float>& p) {
  const SignalsBlocked blocked;
  const TeamLimit alone(1);  // threads that oneDNN starts would take signals
  const dnnl_status_t status = dnnl_sgemm(p.flip_a ? 'T' : 'N', p.flip_b ? 'T' : 'N', p.m, p.n, p.k,
                                          p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  if (status == dnnl_out_of_memory) throw OutOfMemory("matmul: oneDNN ran out of memory");
  if (status != dnnl_success) fail("matmul: oneDNN failed with status ", int{status});
}

// Whether oneDNN has the machine code of its kernels, which it makes at the first product. That
// comes before a team is started, whose stacks could take the room.
bool has_kernels() {
  static std::atomic<bool> made{false};
  if (made.load(std::memory_order_relaxed)) return true;
  if (!memory::has_room(memory::kKernelCode)) return false;
  constexpr int kSize = 8;
  const float zeros[kSize * kSize] = {};
  float result[kSize * kSize];
  compute({.flip_a = false,
           .flip_b = false,
           .m = kSize,
           .n = kSize,
           .k = kSize,
           .alpha = 1,
           .a = zeros,
           .lda = kSize,
           .b = zeros,
           .ldb = kSize,
           .beta = 0,
           .c = result,
           .ldc = kSize});
  made.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace

bool onednn_gemm(const Product<float>& p) {
  const double work = double(p.m) * double(p.n) * double(p.k);
  if (work < (p.flip_a || p.flip_b ? 0x1p16 : 0x1p19)) return false;
  if (!has_kernels()) return false;
  const int threads = thread_count(static_cast<int64_t>(std::min(work, 0x1p62)), kGemmGrain);
  const Tiling tiling = tiling_for(p, threads);
  parallel_for(tiling.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) each_depth(p, tile_at(tiling, p.m, p.n, i), compute);
  });
  return true;
}
#else
bool onednn_gemm(const Product<float>&) { return false; }
#endif

}  // namespace moonlet::cpu
