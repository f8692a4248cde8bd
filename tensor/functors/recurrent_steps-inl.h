// tensor/functors/recurrent_steps-inl.h: what a step of a recurrent network does to one element of
// its state, and the gradients, written once for the CPU's vectors, single values and CUDA. Each
// takes kIn values and gives kOut. Included as tensor/functors/functors-inl.h is, and after it.
#if defined(MOONLET_TENSOR_RECURRENT_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_RECURRENT_STEPS_INL_H_
#undef MOONLET_TENSOR_RECURRENT_STEPS_INL_H_
#else
#define MOONLET_TENSOR_RECURRENT_STEPS_INL_H_
#endif

#include "tensor/functors/functors-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {

// Hochreiter and Schmidhuber 1997. In: the input, forget, cell and output gates before their
// functions, and the cell. Out: the hidden state and the cell.
struct LstmStep {
  static constexpr int kIn = 5, kOut = 2;
  template <class V>
  MOONLET_FN void operator()(const V* in, V* out) const {
    out[1] = sigmoid_of(in[1]) * in[4] + sigmoid_of(in[0]) * vtanh(in[2]);
    out[0] = sigmoid_of(in[3]) * vtanh(out[1]);
  }
};

// In: the gradients of the hidden state and the cell, the inputs of the step, and the cell after
// it. Out: the gradients of the gates and of the cell before.
struct LstmStepGrads {
  static constexpr int kIn = 8, kOut = 5;
  template <class V>
  MOONLET_FN void operator()(const V* in, V* out) const {
    const V i = sigmoid_of(in[2]), f = sigmoid_of(in[3]), candidate = vtanh(in[4]);
    const V o = sigmoid_of(in[5]), shown = vtanh(in[7]);
    const V g = in[1] + in[0] * o * (V(1) - shown * shown);
    out[0] = g * candidate * i * (V(1) - i);
    out[1] = g * in[6] * f * (V(1) - f);
    out[2] = g * i * (V(1) - candidate * candidate);
    out[3] = in[0] * shown * o * (V(1) - o);
    out[4] = g * f;
  }
};

// Cho et al. 2014, with the reset gate behind the product. In: the reset, update and new gates of
// the input, the same of the hidden state, and the hidden state. Out: the hidden state.
struct GruStep {
  static constexpr int kIn = 7, kOut = 1;
  template <class V>
  MOONLET_FN void operator()(const V* in, V* out) const {
    const V reset = sigmoid_of(in[0] + in[3]), update = sigmoid_of(in[1] + in[4]);
    const V fresh = vtanh(in[2] + reset * in[5]);
    out[0] = fresh + update * (in[6] - fresh);
  }
};

// In: the gradient and the inputs of the step. Out: the gradients of these inputs.
struct GruStepGrads {
  static constexpr int kIn = 8, kOut = 7;
  template <class V>
  MOONLET_FN void operator()(const V* in, V* out) const {
    const V g = in[0];
    const V reset = sigmoid_of(in[1] + in[4]), update = sigmoid_of(in[2] + in[5]);
    const V fresh = vtanh(in[3] + reset * in[6]);
    out[2] = g * (V(1) - update) * (V(1) - fresh * fresh);
    out[1] = out[4] = g * (in[7] - fresh) * update * (V(1) - update);
    out[0] = out[3] = out[2] * in[6] * reset * (V(1) - reset);
    out[5] = out[2] * reset;
    out[6] = g * update;
  }
};

}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle
