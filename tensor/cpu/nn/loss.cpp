// tensor/cpu/nn/loss.cpp: the CPU kernels of the negative log likelihood and its gradient.
#include "tensor/cpu/common/contiguous.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::cpu {
namespace {

// log_probs as (outer, classes, inner); the targets as (outer, inner).
struct Classes {
  int64_t outer = 1, classes, inner = 1;
};

Classes classes_of(const Dims& size) {
  if (size.size() == 1) return {1, size[0], 1};
  Classes out{size[0], size[1], 1};
  for (int i = 2; i < size.size(); ++i) out.inner *= size[i];
  return out;
}

// The offset of target `i`'s element in log_probs and its class, or -1 when it is ignored.
template <class I>
int64_t class_of(const char* op, I position, int64_t ignore, int64_t classes) {
  const int64_t value = static_cast<int64_t>(position);
  if (value == ignore) return -1;
  check(value >= 1 && value <= classes, op, ": target ", value, " is no class of 1 to ", classes);
  return value - 1;
}

constexpr DTypeSet kPositions = bit(DType::Int64) | bit(DType::Int32);

}  // namespace

void native_nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                     int64_t reduction, int64_t ignore_index, Tensor& y, Tensor& total_weight) {
  const Classes c = classes_of(log_probs.sizes());
  const Tensor source = contiguous(log_probs), where = contiguous(target);
  const Tensor factors = weight.defined() ? contiguous(weight) : weight;
  visit<dtypes::floating>(log_probs.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      double sum = 0, total = 0;
      for (int64_t i = 0; i < where.numel(); ++i) {
        if (i % kStopBlock == kStopBlock - 1) stop_if_requested();
        const int64_t at = class_of("nll_loss", where.elements<I>()[i], ignore_index, c.classes);
        compute_t<T> loss = 0;
        if (at >= 0) {
          const compute_t<T> factor = factors.defined()
                                          ? static_cast<compute_t<T>>(factors.elements<T>()[at])
                                          : compute_t<T>(1);
          const int64_t position = (i / c.inner * c.classes + at) * c.inner + i % c.inner;
          loss = -factor * static_cast<compute_t<T>>(source.elements<T>()[position]);
          sum += loss;
          total += factor;
        }
        if (reduction == 0) y.elements<T>()[i] = static_cast<T>(loss);
      }
      if (reduction != 0)
        *y.elements<T>() =
            static_cast<T>(static_cast<compute_t<T>>(reduction == 1 ? sum / total : sum));
      *total_weight.elements<T>() = static_cast<T>(static_cast<compute_t<T>>(total));
    });
  });
}

void nll_loss_grad_log_probs(const Tensor& grad, const Tensor& target, const Tensor& weight,
                             const Tensor& total_weight, const Dims& size, int64_t reduction,
                             int64_t ignore_index, Tensor& y) {
  const Classes c = classes_of(size);
  const Tensor gradient = contiguous(grad), where = contiguous(target);
  const Tensor factors = weight.defined() ? contiguous(weight) : weight;
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  visit<dtypes::floating>(y.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      const compute_t<T> total =
          reduction == 1 ? static_cast<compute_t<T>>(*total_weight.elements<T>()) : compute_t<T>(1);
      for (int64_t i = 0; i < where.numel(); ++i) {
        if (i % kStopBlock == kStopBlock - 1) stop_if_requested();
        const int64_t at =
            class_of("nll_loss_grad_log_probs", where.elements<I>()[i], ignore_index, c.classes);
        if (at < 0) continue;
        const compute_t<T> factor = factors.defined()
                                        ? static_cast<compute_t<T>>(factors.elements<T>()[at])
                                        : compute_t<T>(1);
        const compute_t<T> g =
            static_cast<compute_t<T>>(gradient.elements<T>()[reduction == 0 ? i : 0]);
        y.elements<T>()[(i / c.inner * c.classes + at) * c.inner + i % c.inner] =
            static_cast<T>(-g * factor / total);
      }
    });
  });
}

}  // namespace moonlet::cpu
