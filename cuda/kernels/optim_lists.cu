// cuda/kernels/optim_lists.cu: the norm of many tensors, their clipping and their division by a
// loss's scale: one launch for all of them, a block for a chunk of one. The last block to be done
// adds up what the others left, in their order. Also how that scale changes.
#include <cmath>

#include "cuda/kernels/common/chunks.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/core/layout.h"
#include "tensor/functors/optim_number.h"
#include "tensor/kernels_optim.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)
using TensorList = std::vector<Tensor>;

constexpr int64_t kListChunk = 64 * kBlock;
constexpr int kFlight = 4;  // packs that a thread reads before it uses them

struct ListPosition {
  char* data;
  int64_t count, first_block;
};

// Tensors in the device's memory: the count of blocks that are done, then the positions.
class ListTable {
 public:
  // Tensors that do not fill their stretch of memory are copied, and `store` writes them back.
  ListTable(const Call& call, const TensorList& x) {
    std::vector<ListPosition> positions(1, ListPosition{});
    for (const Tensor& each : x) {
      if (each.numel() == 0) continue;
      const bool dense = is_dense(each.sizes(), each.strides());
      const Tensor whole = dense ? each : contiguous(each);
      if (!dense) copies_.emplace_back(each, whole);
      positions.push_back({whole.raw(), whole.numel(), blocks_});
      blocks_ += (whole.numel() + kListChunk - 1) / kListChunk;
    }
    if (blocks_ == 0) return;
    check(blocks_ <= INT32_MAX, call.op(), ": too many elements for one launch");
    count_ = static_cast<int64_t>(positions.size()) - 1;
    const auto bytes = static_cast<int64_t>(positions.size() * sizeof(ListPosition));
    memory_ = call.scratch({bytes}, DType::UInt8);
    upload(call, memory_.raw(), positions.data(), static_cast<size_t>(bytes));
  }
  unsigned* done() const { return reinterpret_cast<unsigned*>(memory_.raw()); }
  const ListPosition* positions() const {
    return reinterpret_cast<ListPosition*>(memory_.raw()) + 1;
  }
  int64_t count() const { return count_; }
  int64_t blocks() const { return blocks_; }
  void store() {
    for (auto& [original, whole] : copies_) copy_back(original, whole);
  }

 private:
  Tensor memory_;
  int64_t count_ = 0, blocks_ = 0;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

// The elements that a block works on.
struct Chunk {
  PackSource x;
  int64_t first, last;
};
__device__ __forceinline__ Chunk chunk_of(const ListPosition* table, int64_t positions, Code code) {
  const ListPosition position = table[position_of(table, positions, blockIdx.x)];
#ifdef __CUDA_ARCH__
  // A pointer that is read from memory might be one of shared memory for all the compiler knows.
  __builtin_assume(__isGlobal(position.data));
#endif
  const int64_t first = (blockIdx.x - position.first_block) * kListChunk;
  const int64_t last = first + kListChunk < position.count ? first + kListChunk : position.count;
  return {{position.data, code, reinterpret_cast<uintptr_t>(position.data) % 16 == 0}, first, last};
}

// How elements make a norm: each is taken, these are combined, and the end is finished.
struct SumOfMagnitudes : AddUp {
  template <class C>
  __device__ C take(C v) const {
    return vabs(v);
  }
  template <class C>
  __device__ C finish(C v) const {
    return v;
  }
};
struct RootOfSquares : AddUp {
  template <class C>
  __device__ C take(C v) const {
    return v * v;
  }
  template <class C>
  __device__ C finish(C v) const {
    return vsqrt(v);
  }
};
struct LargestMagnitude : TakeLargest {
  template <class C>
  __device__ C take(C v) const {
    return vabs(v);
  }
  template <class C>
  __device__ C finish(C v) const {
    return v;
  }
};
struct RootOfPowers : AddUp {
  double p;
  template <class C>
  __device__ C take(C v) const {
    return vpow(vabs(v), static_cast<C>(p));
  }
  template <class C>
  __device__ C finish(C v) const {
    return vpow(v, static_cast<C>(1 / p));
  }
};

// Whether all other blocks have left their parts; the same for all threads of a block.
__device__ __forceinline__ bool is_last_block(unsigned* done) {
  __shared__ unsigned before;
  if (threadIdx.x == 0) {
    __threadfence();
    before = atomicAdd(done, 1u);
    __threadfence();
  }
  __syncthreads();
  return before == gridDim.x - 1;
}

template <class C, int kElement, class Norm>
__global__ void __launch_bounds__(kBlock, 2)
    list_norm_kernel(const ListPosition* table, int64_t positions, Code code, Norm norm, C* parts,
                     unsigned* done, Array y) {
  constexpr int kCount = 16 / kElement, kStep = kBlock * kCount;
  const Chunk chunk = chunk_of(table, positions, code);
  C total = C(0);
  for (int64_t i = chunk.first + int64_t{threadIdx.x} * kCount; i < chunk.last;
       i += kFlight * kStep) {
    Words<16> packs[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      if (i + f * kStep < chunk.last)
        packs[f] = load_pack<kElement>(chunk.x, i + f * kStep, chunk.last - (i + f * kStep));
    C round = C(0);
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (i + f * kStep + k < chunk.last)
        round = norm(round, norm.take(decoded<C, kElement>(bits_at<kElement>(packs[f], k), code)));
    total = norm(total, round);
  }
  total = combine_block(total, norm);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
  if (!is_last_block(done)) return;
  // Other blocks wrote the parts: they are read from where all see them.
  const volatile C* left = parts;
  total = C(0);
  for (int64_t i = threadIdx.x; i < gridDim.x; i += kBlock) total = norm(total, C(left[i]));
  total = combine_block(total, norm);
  if (threadIdx.x == 0) y.set<C>(0, norm.finish(total));
}

// What each element becomes; `ready` is called once by each thread, and `found` by the first one of
// a block with an element for which `looks_for` holds.
struct FindsNothing {
  template <class C>
  __device__ static constexpr bool looks_for(C) {
    return false;
  }
  __device__ static void found() {}
};
struct LimitNorm : FindsNothing {
  Array norm;
  double max_norm;
  // In the norm's dtype, then in that of the elements.
  template <class C>
  __device__ C factor() const {
    const C out = static_cast<C>(max_norm) / (norm.get<C>(0) + static_cast<C>(1e-6));
    return out > C(1) ? C(1) : out;
  }
  template <class C>
  __device__ C ready(Code code, int element) const {
    const C out = norm.dtype == DType::Float64 ? static_cast<C>(factor<double>())
                                               : static_cast<C>(factor<float>());
    if constexpr (std::is_same_v<C, float>)
      if (element == 2) return decoded<C, 2>(encoded<C, 2>(out, code), code);
    return out;
  }
  template <class C>
  __device__ C operator()(C v, C factor) const {
    return v * factor;
  }
};
struct LimitRange : FindsNothing {
  double min, max;
  template <class C>
  __device__ C ready(Code, int) const {
    return C(0);
  }
  // What is no number stays; of bounds that cross, the upper one counts.
  template <class C>
  __device__ C operator()(C v, C) const {
    const C low = static_cast<C>(min), high = static_cast<C>(max);
    v = v < low ? low : v;
    return v > high ? high : v;
  }
};

struct Unscale {
  const float* scale;
  float* found_inf;
  template <class C>
  __device__ C ready(Code, int) const {
    return static_cast<C>(static_cast<float>(1.0 / double{*scale}));
  }
  template <class C>
  __device__ C operator()(C v, C factor) const {
    return v * factor;
  }
  template <class C>
  __device__ static bool looks_for(C v) {
    return !(v - v == C(0));  // not finite
  }
  __device__ void found() const { atomicExch(found_inf, 1.0f); }
};

template <class C, int kElement, class Limit>
__global__ void __launch_bounds__(kBlock, 2)
    list_limit_kernel(const ListPosition* table, int64_t positions, Code code, Limit limit) {
  constexpr int kCount = 16 / kElement, kStep = kBlock * kCount;
  const Chunk chunk = chunk_of(table, positions, code);
  const C number = limit.template ready<C>(code, kElement);
  bool found = false;
  for (int64_t i = chunk.first + int64_t{threadIdx.x} * kCount; i < chunk.last;
       i += kFlight * kStep) {
    Words<16> packs[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      if (i + f * kStep < chunk.last)
        packs[f] = load_pack<kElement>(chunk.x, i + f * kStep, chunk.last - (i + f * kStep));
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      if (i + f * kStep >= chunk.last) continue;
      Words<16> out{};
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const C v = decoded<C, kElement>(bits_at<kElement>(packs[f], k), code);
        found = found || limit.looks_for(v);
        set_bits<kElement>(out, k, encoded<C, kElement>(limit(v, number), code));
      }
      store_pack<kElement>(const_cast<char*>(chunk.x.data), chunk.x.aligned, i + f * kStep,
                           chunk.last - (i + f * kStep), out);
    }
  }
  if constexpr (!std::is_base_of_v<FindsNothing, Limit>)
    if (__syncthreads_or(found) && threadIdx.x == 0) limit.found();
}

__global__ void update_scale_kernel(float* scale, int32_t* growth_tracker, const float* found_inf,
                                    double growth_factor, double backoff_factor,
                                    int64_t growth_interval) {
  optim::update_loss_scale(*scale, *growth_tracker, *found_inf, growth_factor, backoff_factor,
                           growth_interval);
}

template <class Norm>
void run_norm(const Call& call, const ListTable& table, DType dtype, const Norm& norm, Tensor& y) {
  visit_floats(dtype, [&]<class C, int kElement>() {
    const Tensor parts = call.scratch({table.blocks()}, compute_dtype(dtype));
    MOONLET_LAUNCH((list_norm_kernel<C, kElement, Norm>), static_cast<unsigned>(table.blocks()),
                   kBlock, 0, call.stream(), table.positions(), table.count(), code_of(dtype), norm,
                   parts.elements<C>(), table.done(), array(y));
    call.done();
  });
}

template <class Limit>
void run_limit(const Call& call, const TensorList& x, const Limit& limit) {
  ListTable table(call, x);
  if (table.blocks() == 0) return;
  const DType dtype = x[0].dtype();
  visit_floats(dtype, [&]<class C, int kElement>() {
    MOONLET_LAUNCH((list_limit_kernel<C, kElement, Limit>), static_cast<unsigned>(table.blocks()),
                   kBlock, 0, call.stream(), table.positions(), table.count(), code_of(dtype),
                   limit);
    call.done();
  });
  table.store();
}

}  // namespace

// Of powers from here on the largest magnitude is all that counts: the sum of n of them has a root
// of at most n^(1/p) times that, which is 1 + 3e-11 for n = 2^40.
constexpr double kLargestAlone = 0x1p40;

void list_norm(const TensorList& x, double p, Tensor& y) {
  const Call call(y, "list_norm");
  const ListTable table(call, x);
  if (table.blocks() == 0)
    ensure(cudaMemsetAsync(y.raw(), 0, size_of(y.dtype()), call.stream()), call.op());
  else if (p >= kLargestAlone)
    run_norm(call, table, y.dtype(), LargestMagnitude(), y);
  else if (p == 1)
    run_norm(call, table, y.dtype(), SumOfMagnitudes(), y);
  else if (p == 2)
    run_norm(call, table, y.dtype(), RootOfSquares(), y);
  else
    run_norm(call, table, y.dtype(), RootOfPowers{{}, p}, y);
}

void list_limit_norm(const TensorList& x, const Tensor& norm, double max_norm) {
  run_limit(Call(x[0], "list_limit_norm"), x, LimitNorm{{}, array(norm), max_norm});
}

void list_clamp(const TensorList& x, double min, double max) {
  run_limit(Call(x[0], "list_clamp"), x, LimitRange{{}, min, max});
}

void list_unscale(const TensorList& x, const TensorList& found_inf, const Tensor& scale) {
  run_limit(Call(x[0], "list_unscale"), x,
            Unscale{scale.elements<float>(), found_inf[0].elements<float>()});
}

void update_loss_scale(const TensorList& scale, const TensorList& growth_tracker,
                       const Tensor& found_inf, double growth_factor, double backoff_factor,
                       int64_t growth_interval) {
  const Call call(scale[0], "update_loss_scale");
  MOONLET_LAUNCH(update_scale_kernel, 1, 1, 0, call.stream(), scale[0].elements<float>(),
                 growth_tracker[0].elements<int32_t>(), found_inf.elements<float>(), growth_factor,
                 backoff_factor, growth_interval);
  call.done();
}

}  // namespace moonlet::cuda
