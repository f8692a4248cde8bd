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
using optim::StepSource;
using optim::TensorList;

constexpr int kChunk = 32 * kBlock;

// A parameter in the table: where it, its gradient and its states begin (null for those that a step
// does not use), whether all lie at multiples of 16 bytes, the number of the block that takes its
// first chunk, and that of its step in the table of these.
struct Position {
  char* arrays[kMostArrays];
  int64_t count, first_block;
  int step;
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
  // `each` says whether every parameter has a step of its own.
  Parts(StepLists lists, bool each) {
    const TensorList& parameters = **lists.begin();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const int64_t count = parameters[i].numel();
      if (count == 0) continue;
      Position position{{}, count, blocks_, each ? static_cast<int>(i) : 0, true};
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
    const auto* const first = reinterpret_cast<const char*>(values);
    std::copy_n(first, count * sizeof(T), bytes_.data() + at);
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
    optim_step_kernel(const Position* table, int positions, const Step* steps,
                      const float* found_inf) {
  if (found_inf && *found_inf != 0) return;
  constexpr int kCount = 16 / kElement, kArrays = 2 + Step::kStates;
  const Position* const position = table + position_of(table, positions, blockIdx.x);
  const Step step = steps[position->step];
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
                 const Step* steps, const float* found_inf = nullptr) {
  if (parts.positions() == 0) return;
  visit_floats(dtype, [&]<class C, int kElement>() {
    const auto launch = [&]<Code kCode>() {
      MOONLET_LAUNCH((optim_step_kernel<C, kElement, kCode, Step>),
                     static_cast<unsigned>(parts.blocks()), kBlock, 0, call.stream(),
                     reinterpret_cast<const Position*>(table.raw()), parts.positions(), steps,
                     found_inf);
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
  Parts parts(lists, false);
  const size_t at = parts.add(&step, 1);
  const Tensor table = parts.table(call);
  launch_step(call, first.dtype(), parts, table,
              reinterpret_cast<const Step*>(static_cast<char*>(table.raw()) + at));
  parts.store();
}

// What the numbers of all steps follow from.
template <class Step>
struct Origin {
  Step step;
  double numbers[Step::kGiven];
  Array instead[Step::kGiven];
  int64_t strides[Step::kGiven];
  bool decoupled;
};

// The step of each parameter; its counts go on. `counts` has those of all parameters, one after the
// other. Nothing where the gradients were not finite, nor in the step itself.
template <class Step>
__global__ void __launch_bounds__(kBlock)
    optim_numbers_kernel(Origin<Step> origin, const Array* counts, int parameters, Step* steps,
                         const float* found_inf) {
  if (found_inf && *found_inf != 0) return;
  const int i = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (i >= parameters) return;
  double given[Step::kGiven], now[Step::kCounts + 1];
  MOONLET_UNROLL
  for (int k = 0; k < Step::kGiven; ++k) {
    const Array& instead = origin.instead[k];
    given[k] = instead.data ? instead.get<double>(i * origin.strides[k]) : origin.numbers[k];
  }
  MOONLET_UNROLL
  for (int k = 0; k < Step::kCounts; ++k) now[k] = counts[k * parameters + i].get<double>(0);
  Step step = origin.step;
  optim::advance(step, given, origin.decoupled, now);
  steps[i] = step;
  MOONLET_UNROLL
  for (int k = 0; k < Step::kCounts; ++k) counts[k * parameters + i].set<double>(0, now[k]);
}

// The kernels of a step whose numbers follow from tensors; `counts` have one for each parameter.
template <class Step>
void run_capturable_step(const char* op, StepLists lists, StepLists counts,
                         const StepSource<Step>& source) {
  const TensorList& parameters = **lists.begin();
  const Call call(parameters[0], op);
  Parts parts(lists, true);
  std::vector<Array> numbers;
  for (const TensorList* list : counts)
    for (const Tensor& each : *list) numbers.push_back(array(each));
  const size_t at = parts.add(numbers.data(), numbers.size());
  const Tensor table = parts.table(call);
  Origin<Step> origin{source.step, {}, {}, {}, source.decoupled};
  for (int k = 0; k < Step::kGiven; ++k) {
    const Tensor* const instead = source.instead(k);
    origin.numbers[k] = source.numbers[k];
    origin.instead[k] = instead ? array(*instead) : Array{nullptr, DType::Float64};
    origin.strides[k] = instead ? source.stride(*instead) : 0;
  }
  const float* const found_inf = source.found();
  const auto count = static_cast<int>(parameters.size());
  const Tensor steps = call.scratch({count * static_cast<int64_t>(sizeof(Step))}, DType::UInt8);
  MOONLET_LAUNCH((optim_numbers_kernel<Step>), static_cast<unsigned>((count + kBlock - 1) / kBlock),
                 kBlock, 0, call.stream(), origin,
                 reinterpret_cast<const Array*>(static_cast<char*>(table.raw()) + at), count,
                 reinterpret_cast<Step*>(steps.raw()), found_inf);
  call.done();
  launch_step(call, parameters[0].dtype(), parts, table, reinterpret_cast<const Step*>(steps.raw()),
              found_inf);
  parts.store();
}

}  // namespace

#include "tensor/optim_kernels-inl.h"

}  // namespace moonlet::cuda
