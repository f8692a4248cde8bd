// tensor/cpu/optim/optim.cpp: the optimisers' steps on the CPU: one pass over all parameters, their
// gradients and states, split among threads by elements; each element is independent of the others.
#include "tensor/cpu/optim/optim.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/copy.h"
#include "tensor/kernels_optim.h"

namespace moonlet::cpu {
namespace {

using optim::kMostArrays;
using optim::StepLists;
using optim::TensorList;

// A parameter with its gradient and states as dense memory in one order. Those that lie in another
// are copies, which `store` writes back.
class Part {
 public:
  Part(StepLists lists, size_t index) {
    const Dims* order = nullptr;
    Dims strides;
    int a = 0;
    for (const TensorList* list : lists) {
      if (!list->empty()) {
        const Tensor& x = (*list)[index];
        if (a == 0 && !x.is_contiguous()) {
          strides = dense_strides(x.sizes(), x.strides());
          order = &strides;
        }
        arrays_[a] = memory_of(x, order, a);
      }
      ++a;
    }
  }
  void* array(int a) const { return arrays_[a]; }
  void store() {
    for (auto& [original, dense] : copies_) copy_into(original, dense);
  }

 private:
  // A null `order` is row-major.
  void* memory_of(const Tensor& x, const Dims* order, int a) {
    if (order ? x.strides() == *order : x.is_contiguous()) return x.raw();
    if (order && x.is_contiguous() && is_contiguous(x.sizes(), *order)) return x.raw();
    Tensor dense = order ? empty_strided(x.sizes(), *order, options_of(x), "step")
                         : empty_plain(x.sizes(), options_of(x), "step");
    copy_into(dense, x);
    void* const memory = dense.raw();
    if (a == 1)
      gradient_ = std::move(dense);
    else
      copies_.emplace_back(x, std::move(dense));
    return memory;
  }

  void* arrays_[kMostArrays] = {};
  Tensor gradient_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

constexpr int64_t kBuffer = thresholds::optim::kPiece;

// Elements [begin, begin + count) of a part, which are floats of half the size, in floats.
template <class T, class Step>
void move_narrow(const Step& step, const Part& part, int64_t begin, int64_t count) {
  alignas(64) float buffers[2 + Step::kStates][kBuffer];
  float* arrays[2 + Step::kStates];
  for (int64_t end = begin + count; begin < end; begin += kBuffer) {
    const int64_t n = std::min(kBuffer, end - begin);
    for (int a = 0; a < 2 + Step::kStates; ++a) {
      const T* const from = static_cast<const T*>(part.array(a));
      arrays[a] = from ? buffers[a] : nullptr;
      for (int64_t i = 0; from && i < n; ++i) buffers[a][i] = static_cast<float>(from[begin + i]);
    }
    step_loop(step, static_cast<float* const*>(arrays), n);
    for (int a = 0; a < 2 + Step::kStates; ++a) {
      T* const to = a == 1 ? nullptr : static_cast<T*>(part.array(a));
      for (int64_t i = 0; to && i < n; ++i) to[begin + i] = T(buffers[a][i]);
    }
  }
}

template <class T, class Step>
void move_part(const Step& step, const Part& part, int64_t begin, int64_t count) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    T* arrays[2 + Step::kStates];
    for (int a = 0; a < 2 + Step::kStates; ++a) {
      T* const array = static_cast<T*>(part.array(a));
      arrays[a] = array ? array + begin : nullptr;
    }
    step_loop(step, static_cast<T* const*>(arrays), count);
  } else {
    move_narrow<T>(step, part, begin, count);
  }
}

// Moves all parameters; the lists are those of the op, the parameters first. `step_of(i)` is the
// step of parameter number i.
template <class F>
void move_all(StepLists lists, F&& step_of) {
  const TensorList& parameters = **lists.begin();
  std::vector<Part> parts;
  std::vector<int64_t> ends;  // in the order of all parameters' elements
  std::vector<size_t> numbers;
  parts.reserve(parameters.size());
  ends.reserve(parameters.size());
  int64_t total = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    parts.emplace_back(lists, i);
    numbers.push_back(i);
    ends.push_back(total += parameters[i].numel());
  }
  visit<dtypes::floating>(parameters[0].dtype(), [&]<class T>() {
    parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
      size_t i =
          static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
      for (; begin < end; ++i) {
        const int64_t first = i > 0 ? ends[i - 1] : 0, last = std::min(ends[i], end);
        move_part<T>(step_of(numbers[i]), parts[i], begin - first, last - begin);
        begin = last;
      }
    });
  });
  for (Part& part : parts) part.store();
}

template <class Step>
void run_step(const char*, StepLists lists, const Step& step) {
  move_all(lists, [&](size_t) -> const Step& { return step; });
}

void put_number(const Tensor& x, double value) {
  visit<dtypes::floating>(x.dtype(), [&]<class T>() { *x.elements<T>() = static_cast<T>(value); });
}

// The kernel of a step whose numbers follow from tensors; `counts` have one for each parameter.
template <class Step>
void run_capturable_step(const char*, StepLists lists, StepLists counts,
                         const optim::StepSource<Step>& source) {
  if (source.found() != nullptr && *source.found() != 0) return;
  std::vector<Step> steps((*lists.begin())->size(), source.step);
  for (size_t i = 0; i < steps.size(); ++i) {
    double given[Step::kGiven], now[Step::kCounts + 1];
    for (int k = 0; k < Step::kGiven; ++k) {
      const Tensor* const instead = source.instead(k);
      given[k] = instead ? number_in(*instead, static_cast<int64_t>(i) * source.stride(*instead))
                         : source.numbers[k];
    }
    int k = 0;
    for (const TensorList* list : counts) now[k++] = number_in((*list)[i]);
    optim::advance(steps[i], given, source.decoupled, now);
    k = 0;
    for (const TensorList* list : counts) put_number((*list)[i], now[k++]);
  }
  move_all(lists, [&](size_t i) -> const Step& { return steps[i]; });
}

}  // namespace

#include "tensor/optim_kernels-inl.h"

}  // namespace moonlet::cpu
