// tensor/cpu/gemm/gemm_onednn.cpp: float32 and bfloat16 products by oneDNN, each thread a part of
// the result. The threads are ours, because every one of them must block signals: kernels of oneDNN
// 2.x point the stack pointer at a buffer on the heap, and a handler's frame would lie before it.
#include "tensor/cpu/gemm/gemm_onednn.h"

#include <array>
#include <atomic>
#include <bit>
#include <vector>

#include "moonlet_config.h"
#include "tensor/core/tensor.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/signals.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/memory/shortage.h"

#if MOONLET_ONEDNN
#include <dnnl.hpp>
#endif

namespace moonlet::cpu {

#if MOONLET_ONEDNN
namespace {

constexpr int64_t kGemmGrain = thresholds::gemm::kOnednnGrain;

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

// Whether BLAS is likely to be faster, by measurements on both kinds of processors: with AVX-512 it
// has kernels for small products; without, oneDNN brings a transposed first operand slowly into its
// order where the sums are long or its rows begin at the same positions of pages.
bool suits_blas(const Product<float>& p, double work) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") != 0;
#else
  constexpr bool wide = false;
#endif
  namespace limits = thresholds::gemm;
  if (work < (p.flip_a || p.flip_b || !wide ? limits::kBlasWork : limits::kBlasWorkWide))
    return true;
  return !wide && p.flip_a && p.m >= limits::kHighFlipped &&
         (p.k >= limits::kLongFlipped || p.lda % limits::kPageElements == 0);
}

}  // namespace

bool onednn_gemm(const Product<float>& p) {
  const double work = double(p.m) * double(p.n) * double(p.k);
  if (suits_blas(p, work) || !has_kernels()) return false;
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

#if MOONLET_ONEDNN && DNNL_VERSION_MAJOR == 2
namespace {

using dnnl::memory;

// Matrices beside each other; strides in elements.
struct Stack {
  char* data;
  int64_t step, row_stride, col_stride;
  memory::desc desc(int64_t count, int64_t rows, int64_t cols) const {
    return {{count, rows, cols}, memory::data_type::bf16, {step, row_stride, col_stride}};
  }
  char* at(int64_t entry, int64_t row, int64_t col) const {
    return data + (entry * step + row * row_stride + col * col_stride) * int64_t{sizeof(bfloat16)};
  }
};

Stack stack_of(const Tensor& t) { return {t.raw(), t.stride(0), t.stride(1), t.stride(2)}; }
Stack stack_of(const Matrix& m) {
  return {m.data, std::max<int64_t>(1, m.rows * m.cols), m.row_stride, m.col_stride};
}

// Products of matrices (m, k) and (k, n).
struct Products {
  int64_t count, m, n, k;
  float alpha, beta;
  Stack a, b, c;
};

// What a primitive depends on.
using Key = std::array<int64_t, 13>;
Key key_of(const Products& p) {
  return {p.count,
          p.m,
          p.n,
          p.k,
          p.a.step,
          p.a.row_stride,
          p.a.col_stride,
          p.b.step,
          p.b.row_stride,
          p.b.col_stride,
          p.c.step,
          p.c.row_stride,
          static_cast<int64_t>(uint64_t{std::bit_cast<uint32_t>(p.alpha)} << 32 |
                               std::bit_cast<uint32_t>(p.beta))};
}

struct Plan {
  Key key;
  memory::desc a, b, c, scratchpad;
  dnnl::matmul primitive;
};

dnnl::engine& engine() {
  thread_local dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

Plan make_plan(const Products& p) {
  if (!moonlet::memory::has_room(moonlet::memory::kKernelCode))
    throw OutOfMemory("matmul: oneDNN ran out of memory");
  Plan plan;
  plan.key = key_of(p);
  plan.a = p.a.desc(p.count, p.m, p.k);
  plan.b = p.b.desc(p.count, p.k, p.n);
  plan.c = p.c.desc(p.count, p.m, p.n);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.alpha != 1) attr.set_output_scales(0, {p.alpha});
  if (p.beta != 0) {
    dnnl::post_ops sum;
    sum.append_sum(p.beta);
    attr.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc desc({plan.a, plan.b, plan.c}, attr, engine());
  plan.scratchpad = desc.scratchpad_desc();
  plan.primitive = dnnl::matmul(desc);
  return plan;
}

// The plans of the latest shapes on this thread.
const Plan& plan_for(const Products& p) {
  constexpr size_t kPlans = thresholds::gemm::kOnednnPlans;
  thread_local std::vector<Plan> plans;
  thread_local size_t oldest = 0;
  const Key key = key_of(p);
  for (const Plan& plan : plans)
    if (plan.key == key) return plan;
  if (plans.size() < kPlans) return plans.emplace_back(make_plan(p));
  oldest = (oldest + 1) % kPlans;
  return plans[oldest] = make_plan(p);
}

void compute(const Products& p) {
  const SignalsBlocked blocked;
  const TeamLimit alone(1);
  try {
    const Plan& plan = plan_for(p);
    const Tensor room = empty_plain({static_cast<int64_t>(plan.scratchpad.get_size()) + 1},
                                    {DType::UInt8, {}}, "matmul");
    thread_local dnnl::stream stream(engine());
    plan.primitive.execute(stream,
                           {{DNNL_ARG_SRC, memory(plan.a, engine(), p.a.data)},
                            {DNNL_ARG_WEIGHTS, memory(plan.b, engine(), p.b.data)},
                            {DNNL_ARG_DST, memory(plan.c, engine(), p.c.data)},
                            {DNNL_ARG_SCRATCHPAD, memory(plan.scratchpad, engine(), room.raw())}});
    stream.wait();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw OutOfMemory("matmul: oneDNN ran out of memory");
    fail("matmul: oneDNN failed: ", e.what());
  }
}

// Whether the rows or the columns lie dense and apart from each other.
bool is_plain(const Stack& s, int64_t rows, int64_t cols) {
  return (s.col_stride == 1 && s.row_stride >= cols) || (s.row_stride == 1 && s.col_stride >= rows);
}

// Whether oneDNN can compute the products, and they are worth a call.
bool takes(const Products& p) {
  constexpr double kLeast = thresholds::gemm::kOnednnLeast;
  return double(p.count) * double(p.m) * double(p.n) * double(p.k) >= kLeast && p.k <= kTileDepth &&
         p.c.col_stride == 1 && p.c.row_stride >= p.n && is_plain(p.a, p.m, p.k) &&
         is_plain(p.b, p.k, p.n) && p.a.step > 0 && p.b.step > 0 && multiplies_bfloat16();
}

// Each entry by tiles.
void by_tiles(const Products& p) {
  Product<float> sizes{};
  sizes.m = p.m;
  sizes.n = p.n;
  sizes.k = p.k;
  const double work = double(p.m) * double(p.n) * double(p.k);
  const Tiling tiling =
      tiling_for(sizes, thread_count(static_cast<int64_t>(std::min(work, 0x1p62)), kGemmGrain));
  parallel_for(p.count * tiling.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t entry = i / tiling.count();
      const Tile t = tile_at(tiling, p.m, p.n, i % tiling.count());
      Products part = p;
      part.count = 1;
      part.m = t.rows;
      part.n = t.cols;
      part.a.data = p.a.at(entry, t.row, 0);
      part.b.data = p.b.at(entry, 0, t.col);
      part.c.data = p.c.at(entry, t.row, t.col);
      compute(part);
    }
  });
}

// Some entries at once.
void by_entries(const Products& p) {
  const int64_t work = p.m * p.n * p.k;
  const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(kTileWork) / work, 1, p.count);
  const int threads = thread_count(p.count, grain_for(work));
  const int64_t step = std::min(most, (p.count + threads - 1) / threads);
  parallel_for((p.count + step - 1) / step, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Products part = p;
      part.count = std::min(step, p.count - i * step);
      part.a.data = p.a.at(i * step, 0, 0);
      part.b.data = p.b.at(i * step, 0, 0);
      part.c.data = p.c.at(i * step, 0, 0);
      compute(part);
    }
  });
}

}  // namespace

bool multiplies_bfloat16() {
  static const bool does = [] {
    const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
    const unsigned wanted = bits(dnnl::cpu_isa::avx512_core_bf16);
    return (bits(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return does;
}

bool onednn_gemm_bfloat16(double alpha, const Matrix& a, const Matrix& b, double beta,
                          const Matrix& c) {
  const Products p{.count = 1,
                   .m = c.rows,
                   .n = c.cols,
                   .k = a.cols,
                   .alpha = static_cast<float>(alpha),
                   .beta = static_cast<float>(beta),
                   .a = stack_of(a),
                   .b = stack_of(b),
                   .c = stack_of(c)};
  if (!takes(p)) return false;
  by_tiles(p);
  return true;
}

bool onednn_bmm_bfloat16(double alpha, const Tensor& a, const Tensor& b, double beta,
                         const Tensor& c) {
  const Products p{.count = c.size(0),
                   .m = c.size(1),
                   .n = c.size(2),
                   .k = a.size(2),
                   .alpha = static_cast<float>(alpha),
                   .beta = static_cast<float>(beta),
                   .a = stack_of(a),
                   .b = stack_of(b),
                   .c = stack_of(c)};
  if (!takes(p)) return false;
  if (double(p.m) * double(p.n) * double(p.k) < 0x1p24)
    by_entries(p);
  else
    by_tiles(p);
  return true;
}
#else
bool multiplies_bfloat16() { return false; }
bool onednn_gemm_bfloat16(double, const Matrix&, const Matrix&, double, const Matrix&) {
  return false;
}
bool onednn_bmm_bfloat16(double, const Tensor&, const Tensor&, double, const Tensor&) {
  return false;
}
#endif

}  // namespace moonlet::cpu
