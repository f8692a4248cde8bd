// tensor/cpu/optim.cpp: the optimisers' steps on the CPU: one pass over the parameter, its
// gradient and its state, split among threads; each element is independent of the others.
#include "tensor/optim_math.h"

#include <type_traits>

#include "tensor/cpu/copy.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {
namespace {

// A tensor's elements in the order of dense memory of those strides, which all tensors of a step
// share: its own memory, or a copy that `store` writes back.
class Dense {
 public:
  Dense(const Tensor& x, const Dims& strides) : original_(x), dense_(x) {
    if (!x.defined() || x.strides() == strides) return;
    if (x.is_contiguous() && is_contiguous(x.sizes(), strides)) return;
    dense_ = empty_strided(x.sizes(), strides, options_of(x), "step");
    copy_into(dense_, x);
  }
  template <class T>
  T* elements() const {
    return dense_.defined() ? dense_.elements<T>() : nullptr;
  }
  void store() {
    if (original_.defined() && !dense_.is_same(original_)) copy_into(original_, dense_);
  }

 private:
  Tensor original_, dense_;
};

template <class T>
compute_t<T> load(const T& value) {
  return static_cast<compute_t<T>>(value);
}

template <class T, bool has_buffer>
void sgd_loop(const optim::SgdConstants<compute_t<T>>& c, T* x, const T* gradient, T* buffer,
              int64_t count) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      compute_t<T> value = load(x[i]), state{};
      if constexpr (has_buffer) state = load(buffer[i]);
      optim::sgd_element(c, value, load(gradient[i]), has_buffer ? &state : nullptr);
      if constexpr (has_buffer) buffer[i] = T(state);
      x[i] = T(value);
    }
  });
}

template <class T, bool amsgrad>
void adam_loop(const optim::AdamConstants<compute_t<T>>& c, T* __restrict x,
               const T* __restrict gradient, T* __restrict m, T* __restrict v, T* __restrict v_max,
               int64_t count) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      compute_t<T> value = load(x[i]), mean = load(m[i]), square = load(v[i]), largest{};
      if constexpr (amsgrad) largest = load(v_max[i]);
      optim::adam_element(c, value, load(gradient[i]), mean, square, amsgrad ? &largest : nullptr);
      x[i] = T(value);
      m[i] = T(mean);
      v[i] = T(square);
      if constexpr (amsgrad) v_max[i] = T(largest);
    }
  });
}

}  // namespace

void sgd_step(Tensor& x, const Tensor& gradient, const Tensor& momentum_buffer, double lr,
              double momentum, double dampening, double weight_decay, bool nesterov, bool first) {
  const Dims order = dense_strides(x.sizes(), x.strides());
  Dense values(x, order), grads(gradient, order);
  Dense state(momentum != 0 ? momentum_buffer : Tensor(), order);
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const optim::SgdConstants<C> c{C(lr),    C(momentum), C(weight_decay), C(1 - dampening),
                                   nesterov, first};
    auto loop = momentum != 0 ? sgd_loop<T, true> : sgd_loop<T, false>;
    loop(c, values.elements<T>(), grads.elements<T>(), state.elements<T>(), x.numel());
  });
  values.store();
  state.store();
}

void adam_step(Tensor& x, const Tensor& gradient, const Tensor& exp_avg, const Tensor& exp_avg_sq,
               const Tensor& max_exp_avg_sq, int64_t step, double lr, double beta1, double beta2,
               double eps, double weight_decay, bool decoupled) {
  const Dims order = dense_strides(x.sizes(), x.strides());
  Dense values(x, order), grads(gradient, order), m(exp_avg, order), v(exp_avg_sq, order);
  Dense v_max(max_exp_avg_sq, order);
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    const auto c =
        optim::adam_constants<compute_t<T>>(step, lr, beta1, beta2, eps, weight_decay, decoupled);
    auto loop = max_exp_avg_sq.defined() ? adam_loop<T, true> : adam_loop<T, false>;
    loop(c, values.elements<T>(), grads.elements<T>(), m.elements<T>(), v.elements<T>(),
         v_max.elements<T>(), x.numel());
  });
  for (Dense* each : {&values, &m, &v, &v_max}) each->store();
}

}  // namespace moonlet::cpu
