// cuda/kernels/optim.cu: the optimisers' steps: one launch for all parameters, whose positions and
// numbers are tables in the device's memory; a block takes a chunk of one of them. Where the
// numbers follow from tensors, a launch before makes their table.
#include "cuda/kernels/common/chunks.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/functors/optim_math-inl.h"
#include "tensor/kernels_optim.h"

namespace moonlet::cuda {

namespace {

using optim::kMostArrays;
using optim::StepLists;
using optim::TensorList;

constexpr int kChunk = 32 * kBlock;

// A parameter in the table: where it, its gradient and its states begin (null for those that a step
// does not use), whether all lie at multiples of 16 bytes, the number of the block that takes its
// first chunk.
struct Position {
  char* arrays[kMostArrays];
  int64_t count, first_block;
  bool aligned;
};

// A parameter with its gradient and states as row-major memory. What lies otherwise is copied, and
// `store` writes it back.
class Part {
 public:
  Part(StepLists lists, size_t index, Position& position) {
    int a = 0;
    for (const TensorList* list : lists) {
      if (!list->empty()) {
        const Tensor& x = (*list)[index];
        const Tensor dense = contiguous(x);
        if (!dense.is_same(x)) copies_.push_back({x, dense, a != 1});
        position.arrays[a] = array(dense).data;
        position.aligned = position.aligned && aligned_to(position.arrays[a], 16);
      }
      ++a;
    }
  }
  void store() {
    for (Copy& copy : copies_)
      if (copy.written) copy_back(copy.original, copy.dense);
  }

 private:
  struct Copy {
    Tensor original, dense;
    bool written;
  };
  std::vector<Copy> copies_;
};

// The parameters of a step that have elements, and the bytes that are to be uploaded for it: the
// positions, then what the host adds.
class Parts {
 public:
  explicit Parts(StepLists lists) {
    const TensorList& parameters = **lists.begin();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const int64_t count = parameters[i].numel();
      if (count == 0) continue;
      Position position{{}, count, blocks_, true};
      parts_.emplace_back(lists, i, position);
      blocks_ += (count + kChunk - 1) / kChunk;
      add(&position, 1);
      ++positions_;
    }
  }
  // Where in the table `count` values are then.
  template <class T>
  size_t add(const T* values, size_t count) {
    static_assert(sizeof(T) % alignof(double) == 0);
    const size_t at = bytes_.size();
    bytes_.resize(at + count * sizeof(T));
    std::memcpy(bytes_.data() + at, values, count * sizeof(T));
    return at;
  }
  Tensor table(const Call& call) const {
    check(blocks_ <= INT32_MAX, call.op(), ": too many elements for one launch");
    Tensor out = call.scratch({static_cast<int64_t>(bytes_.size())}, DType::UInt8);
    upload(call, out.raw(), bytes_.data(), bytes_.size());
    return out;
  }
  int positions() const { return positions_; }
  int64_t blocks() const { return blocks_; }
  void store() {
    for (Part& part : parts_) part.store();
  }

 private:
  std::vector<Part> parts_;
  std::vector<char> bytes_;
  int64_t blocks_ = 0;
  int positions_ = 0;
};

// A pointer that is read from memory might be one of shared memory for all the compiler knows.
__device__ __forceinline__ char* in_global(char* p) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}

template <class C, int kElement, Code kCode, class Step>
__global__ void __launch_bounds__(kBlock, 2)
    optim_step_kernel(const Position* table, int positions, const Step* given) {
  constexpr int kCount = 16 / kElement, kArrays = 2 + Step::kStates;
  const Position* const position = table + position_of(table, positions, blockIdx.x);
  const Step step = *given;
  const int64_t first = (blockIdx.x - position->first_block) * kChunk;
  const int64_t left = position->count - first;
  const int count = left < kChunk ? static_cast<int>(left) : kChunk;
  char* arrays[kArrays];
  MOONLET_UNROLL
  for (int a = 0; a < kArrays; ++a) arrays[a] = position->arrays[a];
  const bool aligned = position->aligned;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < count; i += kBlock * kCount) {
    Words<16> packs[kArrays];
    MOONLET_UNROLL
    for (int a = 0; a < kArrays; ++a)
      packs[a] = arrays[a] ? load_pack<kElement>(PackSource{in_global(arrays[a]), kCode, aligned},
                                                 first + i, count - i)
                           : Words<16>{};
    Words<16> after[kArrays]{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      C now[kArrays];
      MOONLET_UNROLL
      for (int a = 0; a < kArrays; ++a)
        now[a] = decoded<C, kElement>(bits_at<kElement>(packs[a], k), kCode);
      optim::update(step, now[0], now[1], now + 2);
      MOONLET_UNROLL
      for (int a = 0; a < kArrays; ++a)
        set_bits<kElement>(after[a], k, encoded<C, kElement>(now[a], kCode));
    }
    MOONLET_UNROLL
    for (int a = 0; a < kArrays; ++a)
      if (a != 1 && arrays[a])
        store_pack<kElement>(in_global(arrays[a]), aligned, first + i, count - i, after[a]);
  }
}

template <class Step>
void launch_step(const Call& call, DType dtype, const Parts& parts, const Tensor& table,
                 const Step* steps) {
  if (parts.positions() == 0) return;
  visit_floats(dtype, [&]<class C, int kElement>() {
    const auto launch = [&]<Code kCode>() {
      MOONLET_LAUNCH((optim_step_kernel<C, kElement, kCode, Step>),
                     static_cast<unsigned>(parts.blocks()), kBlock, 0, call.stream(),
                     reinterpret_cast<const Position*>(table.raw()), parts.positions(), steps);
    };
    if constexpr (kElement == 2)
      if (dtype == DType::BFloat16) return launch.template operator()<Code::kBFloat16>();
    launch.template operator()<Code::kPlain>();
  });
  call.done();
}

// The kernel of a step; the lists are those of its op, the parameters first.
template <class Step>
void run_step(const char* op, StepLists lists, const Step& step) {
  const Tensor& first = (**lists.begin())[0];
  const Call call(first, op);
  Parts parts(lists);
  const size_t at = parts.add(&step, 1);
  const Tensor table = parts.table(call);
  launch_step(call, first.dtype(), parts, table,
              reinterpret_cast<const Step*>(static_cast<char*>(table.raw()) + at));
  parts.store();
}

}  // namespace

#include "tensor/optim_kernels-inl.h"

}  // namespace moonlet::cuda
