// tensor/cpu/nn/loss_ctc.cpp: the CPU kernels of the connectionist temporal classification loss and
// its gradient: an entry of the batch for each thread.
#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/functors/ctc_paths.h"

namespace moonlet::cpu {
namespace {

using Lengths = std::vector<int64_t>;

// What is the same for forward and backward: log_probs (steps, entries, classes), the targets and
// where each begins.
struct Batch {
  int64_t steps, entries, classes, blank, width;
  Tensor targets;
  Lengths starts;

  Batch(const char* op, const Tensor& log_probs, const Tensor& given, const Lengths& lengths,
        int64_t blank_class, int64_t positions)
      : steps(log_probs.size(0)),
        entries(log_probs.size(1)),
        classes(log_probs.size(2)),
        blank(blank_class),
        width(positions),
        targets(converted(given, DType::Int64)) {
    int64_t start = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      starts.push_back(given.dim() == 2 ? static_cast<int64_t>(i) * given.size(1) : start);
      start += lengths[i];
      for (int64_t k = 0; k < lengths[i]; ++k) {
        const int64_t value = targets.elements<int64_t>()[starts.back() + k];
        check(value >= 1 && value <= classes, op, ": target ", value, " is no class of 1 to ",
              classes);
      }
    }
  }
  ctc::Positions positions(int64_t entry, const Lengths& lengths) const {
    const auto i = static_cast<size_t>(entry);
    return {targets.elements<int64_t>() + starts[i], lengths[i], blank};
  }
  int64_t row(int64_t step, int64_t entry) const { return (step * entries + entry) * classes; }
};

// Fills alpha (steps, width) of one entry and gives its loss.
template <class C>
C forward(const Batch& b, const ctc::Positions& positions, int64_t entry, int64_t steps,
          const C* log_probs, C* alpha) {
  const int64_t count = positions.count();
  for (int64_t t = 0; t < steps; ++t) {
    stop_if_requested();
    const C *emitted = log_probs + b.row(t, entry), *before = alpha + (t - 1) * b.width;
    C* here = alpha + t * b.width;
    for (int64_t p = 0; p < count; ++p) {
      const C reached = t > 0   ? ctc::into(positions, before, p)
                        : p < 2 ? C(0)
                                : -std::numeric_limits<C>::infinity();
      here[p] = reached + emitted[positions.at(p)];
    }
  }
  return ctc::loss(positions, alpha + (steps - 1) * b.width, steps);
}

// Adds the gradient of one entry to `out`, which is 0 there; `beta` has room for two steps.
template <class C>
void backward(const Batch& b, const ctc::Positions& positions, int64_t entry, int64_t steps,
              const C* log_probs, const C* alpha, C loss, C gradient, C* beta, C* out) {
  const int64_t count = positions.count();
  for (int64_t t = steps - 1; t >= 0; --t) {
    stop_if_requested();
    const C *emitted = log_probs + b.row(t, entry), *after = beta + (t + 1) % 2 * b.width;
    C* here = beta + t % 2 * b.width;
    C* grad = out + b.row(t, entry);
    for (int64_t p = 0; p < count; ++p) {
      const C on = t + 1 < steps    ? ctc::onward(positions, after, p)
                   : p + 2 >= count ? C(0)
                                    : -std::numeric_limits<C>::infinity();
      const int64_t at = positions.at(p);
      here[p] = on + emitted[at];
      grad[at] -= gradient * std::exp(alpha[t * b.width + p] + on + loss);
    }
  }
}

}  // namespace

void native_ctc_loss(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                     const Lengths& target_lengths, int64_t blank, Tensor& y, Tensor& log_alpha) {
  const Batch b("ctc_loss", log_probs, targets, target_lengths, blank, log_alpha.size(2));
  const DType compute = compute_dtype(log_probs.dtype());
  const Tensor source = converted(log_probs, compute);
  Tensor losses = workspace(y, compute), paths = workspace(log_alpha, compute);
  visit_compute<dtypes::floating>(compute, [&]<class C>() {
    std::fill_n(paths.elements<C>(), paths.numel(), -std::numeric_limits<C>::infinity());
    parallel_for(b.entries, grain_for(b.steps * b.width * 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        losses.elements<C>()[i] =
            forward(b, b.positions(i, target_lengths), i, input_lengths[static_cast<size_t>(i)],
                    source.elements<C>(), paths.elements<C>() + i * b.steps * b.width);
      }
    });
  });
  write_back(y, losses), write_back(log_alpha, paths);
}

void ctc_loss_grad_log_probs(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                             const Lengths& input_lengths, const Lengths& target_lengths,
                             const Tensor& result, const Tensor& log_alpha, int64_t blank,
                             Tensor& y) {
  const Batch b("ctc_loss_grad_log_probs", log_probs, targets, target_lengths, blank,
                log_alpha.size(2));
  const DType compute = compute_dtype(log_probs.dtype());
  const Tensor source = converted(log_probs, compute), gradients = converted(grad, compute),
               losses = converted(result, compute), paths = converted(log_alpha, compute);
  Tensor out = workspace(y, compute);
  zero_bytes(out.raw(), out.numel() * static_cast<int64_t>(size_of(compute)));
  visit_compute<dtypes::floating>(compute, [&]<class C>() {
    parallel_for(b.entries, grain_for(b.steps * b.width * 16), [&](int64_t begin, int64_t end) {
      std::vector<C> beta(static_cast<size_t>(2 * b.width));
      for (int64_t i = begin; i < end; ++i) {
        const C gradient = gradients.elements<C>()[i];
        // An infinite loss that nobody asks for (zero_infinity) has no gradient.
        if (gradient == 0) continue;
        backward(b, b.positions(i, target_lengths), i, input_lengths[static_cast<size_t>(i)],
                 source.elements<C>(), paths.elements<C>() + i * b.steps * b.width,
                 losses.elements<C>()[i], gradient, beta.data(), out.elements<C>());
      }
    });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu
