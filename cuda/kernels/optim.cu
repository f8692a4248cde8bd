// cuda/kernels/optim.cu: the optimisers' steps: one launch for all parameters, whose positions are
// a table in the device's memory; a block takes a chunk of one of them.
#include "cuda/kernels/common/chunks.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/functors/optim_math-inl.h"
#include "tensor/kernels_optim.h"

namespace moonlet::cuda {

namespace {

using optim::kMostArrays;
using optim::StepLists;
using optim::TensorList;

constexpr int64_t kChunk = 16 * kBlock;

// A parameter in the table: where it, its gradient and its states begin (null for those that a step
// does not use), and the number of the block that takes its first chunk.
struct Position {
  char* arrays[kMostArrays];
  int64_t count;
  int64_t first_block;
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

template <class C, class Step>
__global__ void step_kernel(Step step, const Position* table, int64_t positions, DType dtype) {
  const int64_t block = blockIdx.x;
  const Position position = table[position_of(table, positions, block)];
  const int64_t begin = (block - position.first_block) * kChunk;
  const int64_t end = begin + kChunk < position.count ? begin + kChunk : position.count;
  const Array x{position.arrays[0], dtype}, gradient{position.arrays[1], dtype};
  for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
    C value = x.get<C>(i), states[Step::kStates];
    for (int s = 0; s < Step::kStates; ++s)
      states[s] = position.arrays[2 + s] ? Array{position.arrays[2 + s], dtype}.get<C>(i) : C(0);
    optim::update(step, value, gradient.get<C>(i), states);
    x.set<C>(i, value);
    for (int s = 0; s < Step::kStates; ++s)
      if (position.arrays[2 + s]) Array{position.arrays[2 + s], dtype}.set<C>(i, states[s]);
  }
}

// The kernel of a step; the lists are those of its op, the parameters first.
template <class Step>
void run_step(const char* op, StepLists lists, const Step& step) {
  const TensorList& parameters = **lists.begin();
  const Call call(parameters[0], op);
  std::vector<Part> parts;
  std::vector<Position> positions;
  int64_t blocks = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t count = parameters[i].numel();
    if (count == 0) continue;
    positions.push_back({{}, count, blocks});
    parts.emplace_back(lists, i, positions.back());
    blocks += (count + kChunk - 1) / kChunk;
  }
  if (positions.empty()) return;
  const auto bytes = static_cast<int64_t>(positions.size() * sizeof(Position));
  const Tensor table = call.scratch({bytes}, DType::UInt8);
  upload(call, table.raw(), positions.data(), static_cast<size_t>(bytes));
  const DType dtype = parameters[0].dtype();
  visit_device_compute<dtypes::floating>(dtype, [&]<class C>() {
    MOONLET_LAUNCH((step_kernel<C, Step>), static_cast<unsigned>(blocks), kBlock, 0, call.stream(),
                   step, reinterpret_cast<const Position*>(table.raw()),
                   static_cast<int64_t>(positions.size()), dtype);
  });
  call.done();
  for (Part& part : parts) part.store();
}

}  // namespace

#include "tensor/optim_kernels-inl.h"

}  // namespace moonlet::cuda
