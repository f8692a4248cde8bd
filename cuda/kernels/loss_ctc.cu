// cuda/kernels/loss_ctc.cu: the connectionist temporal classification loss and its gradient: a
// block for each entry of the batch, a thread for each position of the target; steps follow one
// another.
#include <algorithm>
#include <vector>

#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/functors/ctc_paths.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_loss.h"

namespace moonlet::cuda {

namespace {

using Lengths = std::vector<int64_t>;

// log_probs (steps, entries, classes); of each entry the start of its target and both lengths.
struct Batch {
  int64_t steps, entries, classes, blank, width;
  const int64_t *targets, *starts, *target_lengths, *input_lengths;
  __device__ ctc::Positions positions(int64_t i) const {
    return {targets + starts[i], target_lengths[i], blank};
  }
  __device__ int64_t row(int64_t step, int64_t entry) const {
    return (step * entries + entry) * classes;
  }
};

// The classes that are counted, with the first in the place of what is none.
__global__ void __launch_bounds__(kBlock) targets_kernel(Batch b, Reporter wrong, int64_t* to) {
  for (int64_t i = blockIdx.x; i < b.entries; i += gridDim.x)
    for (int64_t k = threadIdx.x; k < b.target_lengths[i]; k += kBlock) {
      const int64_t at = b.starts[i] + k, target = b.targets[at];
      const bool good = target >= 1 && target <= b.classes;
      if (!good) report(wrong, target, b.classes);
      to[at] = good ? target : 1;
    }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    ctc_forward_kernel(Batch b, Typed<T> log_probs, Computed<T>* log_alpha, Typed<T> y) {
  using C = Computed<T>;
  for (int64_t i = blockIdx.x; i < b.entries; i += gridDim.x) {
    const ctc::Positions positions = b.positions(i);
    const int64_t steps = b.input_lengths[i];
    C* alpha = log_alpha + i * b.steps * b.width;
    for (int64_t t = 0; t < b.steps; ++t) {
      for (int64_t p = threadIdx.x; p < b.width; p += kBlock) {
        C* here = alpha + t * b.width + p;
        if (t >= steps || p >= positions.count())
          *here = C(-HUGE_VAL);
        else
          *here = (t > 0   ? ctc::into(positions, alpha + (t - 1) * b.width, p)
                   : p < 2 ? C(0)
                           : C(-HUGE_VAL)) +
                  log_probs.template get<C>(b.row(t, i) + positions.at(p));
      }
      __syncthreads();
    }
    if (threadIdx.x == 0)
      y.template set<C>(
          i, ctc::loss(positions, static_cast<const C*>(alpha + (steps - 1) * b.width), steps));
    __syncthreads();
  }
}

// Of each class of a target the number of its next one of the same class, 0 for the last, which
// holds for all steps; negative where there is one before.
__global__ void __launch_bounds__(kBlock) chains_kernel(Batch b, int* chains) {
  for (int64_t i = blockIdx.x; i < b.entries; i += gridDim.x) {
    const int64_t* target = b.targets + b.starts[i];
    const int64_t length = b.target_lengths[i];
    for (int64_t k = threadIdx.x; k < length; k += kBlock) {
      bool first = true;
      for (int64_t q = 0; first && q < k; ++q) first = target[q] != target[k];
      int64_t next = k + 1;
      while (next < length && target[next] != target[k]) ++next;
      const int link = next < length ? static_cast<int>(next) : 0;
      chains[i * b.width + k] = first ? link : -link - 1;
    }
  }
}

// Sets the gradients of the classes of a step: that of the blank is the block's sum, that of each
// other class is summed along its chain by the thread of its first.
template <class C, class Result>
__device__ void add_up(const ctc::Positions& positions, const int* chain, const C* shares,
                       int64_t row, C gradient, const Result& y) {
  C blanks = C(0);
  for (int64_t p = threadIdx.x; p < positions.count(); p += kBlock)
    if (positions.at(p) == positions.blank) blanks += shares[p];
  blanks = combine_block(blanks, AddUp());
  if (threadIdx.x == 0) y.template set<C>(row + positions.blank, -gradient * blanks);
  for (int64_t k = threadIdx.x; k < positions.length; k += kBlock) {
    const int64_t at = positions.target[k] - 1;
    int link = chain[k];
    if (link < 0 || at == positions.blank) continue;
    C sum = shares[2 * k + 1];
    while (link > 0) {
      sum += shares[2 * link + 1];
      link = -chain[link] - 1;
    }
    y.template set<C>(row + at, -gradient * sum);
  }
}

// `scratch` (entries, 3, width): the backward variables of two steps, and the shares of the
// positions.
template <class T>
__global__ void __launch_bounds__(kBlock)
    ctc_backward_kernel(Batch b, Typed<T> log_probs, Typed<T> grad, Typed<T> result,
                        const Computed<T>* log_alpha, const int* chains, Computed<T>* scratch,
                        Typed<T> y) {
  using C = Computed<T>;
  for (int64_t i = blockIdx.x; i < b.entries; i += gridDim.x) {
    const ctc::Positions positions = b.positions(i);
    const int64_t steps = b.input_lengths[i], count = positions.count();
    const C gradient = grad.template get<C>(i), loss = result.template get<C>(i);
    const C* alpha = log_alpha + i * b.steps * b.width;
    C *beta = scratch + i * 3 * b.width, *shares = beta + 2 * b.width;
    // An infinite loss that nobody asks for (zero_infinity) has no gradient.
    for (int64_t t = gradient == C(0) ? -1 : steps - 1; t >= 0; --t) {
      const C* after = beta + (t + 1) % 2 * b.width;
      C* here = beta + t % 2 * b.width;
      for (int64_t p = threadIdx.x; p < count; p += kBlock) {
        const C on = t + 1 < steps    ? ctc::onward(positions, after, p)
                     : p + 2 >= count ? C(0)
                                      : C(-HUGE_VAL);
        here[p] = on + log_probs.template get<C>(b.row(t, i) + positions.at(p));
        shares[p] = fn::vexp(alpha[t * b.width + p] + on + loss);
      }
      __syncthreads();
      add_up(positions, chains + i * b.width, static_cast<const C*>(shares), b.row(t, i), gradient,
             y);
      __syncthreads();
    }
  }
}

// The batch's description on the device; holds what it points to.
struct DeviceBatch {
  Tensor targets, numbers;
  Batch batch;

  DeviceBatch(const Call& call, const Tensor& log_probs, const Tensor& given,
              const Lengths& input_lengths, const Lengths& target_lengths, int64_t blank,
              int64_t width)
      : targets(converted(given, DType::Int64)) {
    const int64_t n = log_probs.size(1), classes = log_probs.size(2);
    Tensor described = empty_plain({3, n}, {DType::Int64, Device{}}, call.op());
    int64_t *row = described.elements<int64_t>(), start = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t length = target_lengths[static_cast<size_t>(i)];
      row[i] = given.dim() == 2 ? i * given.size(1) : start;
      row[n + i] = length;
      row[2 * n + i] = input_lengths[static_cast<size_t>(i)];
      start += length;
    }
    numbers = call.scratch({3, n}, DType::Int64);
    upload(call, numbers.raw(), described.raw(), static_cast<size_t>(3 * n) * sizeof(int64_t));
    const int64_t* at = numbers.elements<int64_t>();
    batch = {log_probs.size(0),           n,  classes, blank,     width,
             targets.elements<int64_t>(), at, at + n,  at + 2 * n};
    if (n == 0 || targets.numel() == 0) return;
    const Tensor checked = call.scratch(targets.sizes(), DType::Int64);
    MOONLET_LAUNCH(targets_kernel, blocks_for(n * kBlock), kBlock, 0, call.stream(), batch,
                   reporter(call.device().index, call.op(), Fault::Target),
                   checked.elements<int64_t>());
    call.done();
    targets = checked;
    batch.targets = targets.elements<int64_t>();
  }
};

}  // namespace

void native_ctc_loss(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                     const Lengths& target_lengths, int64_t blank, Tensor& y, Tensor& log_alpha) {
  const Call call(log_probs, "ctc_loss");
  const DeviceBatch b(call, log_probs, targets, input_lengths, target_lengths, blank,
                      log_alpha.size(2));
  if (b.batch.entries == 0) return;
  const Tensor source = contiguous(log_probs);
  visit_float_types(log_probs.dtype(), [&]<class T>() {
    MOONLET_LAUNCH(ctc_forward_kernel<T>, blocks_for(b.batch.entries * kBlock), kBlock, 0,
                   call.stream(), b.batch, typed<T>(source), log_alpha.elements<Computed<T>>(),
                   typed<T>(y));
  });
  call.done();
}

void ctc_loss_grad_log_probs(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                             const Lengths& input_lengths, const Lengths& target_lengths,
                             const Tensor& result, const Tensor& log_alpha, int64_t blank,
                             Tensor& y) {
  const Call call(log_probs, "ctc_loss_grad_log_probs");
  const int64_t width = log_alpha.size(2);
  const DeviceBatch b(call, log_probs, targets, input_lengths, target_lengths, blank, width);
  fill(y, Scalar(0));
  if (b.batch.entries == 0) return;
  const DType compute = compute_dtype(log_probs.dtype());
  const Tensor source = contiguous(log_probs), gradients = contiguous(grad),
               losses = contiguous(result), paths = converted(log_alpha, compute);
  const Tensor scratch = call.scratch({b.batch.entries, 3, width}, compute);
  const Tensor chains = call.scratch({b.batch.entries, width}, DType::Int32);
  MOONLET_LAUNCH(chains_kernel, blocks_for(b.batch.entries * kBlock), kBlock, 0, call.stream(),
                 b.batch, chains.elements<int>());
  call.done();
  visit_float_types(log_probs.dtype(), [&]<class T>() {
    using C = Computed<T>;
    MOONLET_LAUNCH(ctc_backward_kernel<T>, blocks_for(b.batch.entries * kBlock), kBlock, 0,
                   call.stream(), b.batch, typed<T>(source), typed<T>(gradients), typed<T>(losses),
                   static_cast<const C*>(paths.elements<C>()),
                   static_cast<const int*>(chains.elements<int>()), scratch.elements<C>(),
                   typed<T>(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
