// tests/embed/tensors.cpp: tensors and the tape in C++ alone: a small model is trained, and access
// to elements is checked. No interpreter is made. Exits with 1 on a failure.
#include <moonlet/autograd/custom_function.h>
#include <moonlet/func.h>
#include <moonlet/ops.h>
#include <cmath>
#include <cstdio>
#include <string>

#include "expect.h"

namespace ml = moonlet;

namespace {

struct Layer {
  ml::Tensor weight, bias;

  Layer(int64_t in, int64_t out, ml::Generator& generator)
      : weight(ml::randn({out, in}, &generator)), bias(ml::zeros({out})) {
    weight = weight / std::sqrt(static_cast<double>(in));
    ml::set_requires_grad(weight, true);
    ml::set_requires_grad(bias, true);
  }
  ml::Tensor operator()(const ml::Tensor& x) const { return ml::linear(x, weight, bias); }
};

void descend(ml::Tensor& parameter, double rate) {
  const ml::NoGrad no_grad;
  ml::sub_(parameter, rate * ml::grad_of(parameter));
  ml::set_grad(parameter, {});
}

// Class 2 inside a circle, class 1 outside: positions are 1-based.
void test_training() {
  ml::Generator generator(1);
  const ml::Tensor x = ml::rand({256, 2}, &generator) * 2 - 1;
  const ml::Tensor inside = ml::lt(ml::sum(x * x, {1}), 0.5);
  const ml::Tensor y = ml::to(inside, ml::DType::Int64) + 1;
  Layer first(2, 32, generator), second(32, 2, generator);
  double loss_value = 0;
  for (int step = 0; step < 300; ++step) {
    const ml::Tensor loss = ml::cross_entropy(second(ml::tanh(first(x))), y);
    ml::backward(loss);
    for (ml::Tensor* p : {&first.weight, &first.bias, &second.weight, &second.bias})
      descend(*p, 0.5);
    loss_value = *ml::detach(loss).data<float>();
  }
  expect(loss_value < 0.3, "the loss falls");
  const ml::NoGrad no_grad;
  const ml::Tensor predicted = ml::argmax(second(ml::tanh(first(x))), 1);
  const ml::Tensor right = ml::sum(ml::to(ml::eq(predicted, y), ml::DType::Int64));
  expect(*right.data<int64_t>() > 225, "most are classified right");
}

void test_gradients() {
  ml::Tensor w = ml::full({3}, 2.0);
  ml::set_requires_grad(w, true);
  const ml::Tensor y = ml::sum(w * w);
  expect(y.requires_grad() && ml::grad_fn_name(y) == "SumBackward", "y has a history");
  const ml::Tensor g = ml::grad({y}, {w}, {}, true)[0];
  expect(g.data<float>()[2] == 4, "a gradient");
  expect(!ml::grad_of(w).defined(), "grad() touches no leaf");
  ml::backward(y);
  expect(ml::grad_of(w).data<float>()[0] == 4, "backward adds to leaves");
  {
    const ml::NoGrad no_grad;
    expect(!(w * w).requires_grad(), "nothing is recorded under NoGrad");
  }
  expect(ml::grad_enabled(), "and it ends with its scope");
}

// A function with a derivative of its own, whose node is named after it.
struct Halve : ml::autograd::Function<Halve> {
  static ml::Tensor forward(ml::autograd::FunctionContext& ctx, const ml::Tensor& x, double by) {
    ctx.save_for_backward({x});
    ctx.saved_data["by"] = by;
    return x * x / by;
  }
  static std::vector<ml::Tensor> backward(ml::autograd::FunctionContext& ctx,
                                          const std::vector<ml::Tensor>& grads) {
    const ml::Tensor x = ctx.saved_tensors()[0];
    return {grads[0] * x * 2.0 / std::any_cast<double>(ctx.saved_data["by"])};
  }
};

void test_function() {
  ml::Tensor w = ml::full({3}, 2.0);
  ml::set_requires_grad(w, true);
  const ml::Tensor y = Halve::apply(w, 4.0);
  expect(ml::grad_fn_name(y) == "HalveBackward", "a function of the host's has a node");
  ml::backward(ml::sum(y));
  expect(ml::grad_of(w).data<float>()[1] == 1, "and its gradient");
}

void test_elements() {
  float buffer[6] = {0, 1, 2, 3, 4, 5};
  const ml::Tensor x = ml::clone(ml::from_blob(buffer, {6}, ml::DType::Float32));
  expect(x.data<float>()[5] == 5 && x.data<const float>()[4] == 4, "elements");
  expect_error([&] { x.data<double>(); }, "data: the tensor is float32, float64 was expected");
  const ml::Tensor t = ml::transpose(ml::view(x, {2, 3}), 0, 1);
  expect_error([&] { t.data<float>(); }, "do not lie one after another");
  expect(ml::contiguous(t).data<float>()[1] == 3, "contiguous lays them out");
  expect(ml::to(t, ml::DType::Float64).dtype() == ml::DType::Float64, "to another dtype");
  expect_error([] { ml::Tensor().data<float>(); }, "data: the tensor is undefined");
  ml::Tensor kept = ml::clone(x);
  kept.storage().make_read_only();
  expect(kept.data<const float>()[1] == 1, "read-only memory can be read");
  expect_error([&] { kept.data<float>(); }, "read-only");
  expect_error([&] { ml::matmul(x, ml::ones({7})); }, "matmul");
}

void test_vmap() {
  const ml::Tensor x = ml::arange(0, 5, 1, ml::DType::Float32);
  const ml::Tensor columns = ml::view(x, {2, 3}), weight = ml::full({3}, 2.0);
  ml::VmapOptions options;
  options.in_dims = {-1, 0};
  options.out_dim = 1;
  const auto scaled = [](const std::vector<ml::Tensor>& sample) {
    expect(sample[0].dim() == 1 && sample[1].dim() == 0, "inside, tensors are samples");
    expect_error([&] { sample[0].data<float>(); }, "data");
    return std::vector<ml::Tensor>{sample[0] * sample[1], ml::ones({2})};
  };
  const auto results = ml::vmap(scaled, {columns, weight}, options);
  expect(ml::contiguous(results[0]).data<float>()[5] == 10, "a result of each sample");
  expect(results[1].sizes() == ml::Dims{2, 3}, "and one that is the same for all");
  options.in_dims = {0, ml::VmapOptions::kShared};
  const auto moved = [](const std::vector<ml::Tensor>& sample) {
    return std::vector<ml::Tensor>{ml::sum(sample[0] * sample[1])};
  };
  options.out_dim = 0;
  const ml::Tensor sums = ml::contiguous(ml::vmap(moved, {columns, weight}, options)[0]);
  expect(sums.data<float>()[0] == 6 && sums.data<float>()[1] == 24, "a shared input");
  expect_error([&] { ml::vmap(moved, {columns, weight}); }, "the inputs hold 2 and 3 samples");
  expect_error([&] { ml::vmap(moved, {columns, ml::ones({})}); }, "input 2 has no dimension");
  options.in_dims = {0};
  expect_error([&] { ml::vmap(moved, {columns, weight}, options); }, "in_dims names 1 inputs");
  const auto random = [](const std::vector<ml::Tensor>& sample) {
    return std::vector<ml::Tensor>{sample[0] + ml::rand({3})};
  };
  expect_error([&] { ml::vmap(random, {columns}); }, "random numbers inside vmap");
  ml::Tensor kept;
  ml::vmap([&](const std::vector<ml::Tensor>& sample) { return kept = sample[0], sample; },
           {columns});
  expect_error([&] { kept + 1; }, "a tensor of a vmap that has ended is used");
}

void test_forward_mode() {
  const ml::Tensor x = ml::full({3}, 2.0);
  const ml::DualLevel outer;
  const ml::Tensor dual = outer.make_dual(x, ml::ones({3}));
  const auto cube = outer.unpack(dual * dual * dual);
  expect(cube.primal.data<float>()[0] == 8 && cube.tangent.data<float>()[2] == 12, "a tangent");
  expect(!outer.unpack(x * 2).tangent.defined(), "none where nothing carries one");
  const ml::DualLevel inner;
  const ml::Tensor both = inner.make_dual(dual, ml::ones({3}));
  const ml::Tensor first = inner.unpack(both * both * both).tangent;
  expect(outer.unpack(first).tangent.data<float>()[1] == 12, "a second derivative");
}

void test_autocast() {
  const ml::Tensor a = ml::ones({2, 2});
  ml::Autocast half(ml::DeviceType::CPU, ml::DType::BFloat16, true);
  const ml::ModeScope scope(half);
  expect(ml::mm(a, a).dtype() == ml::DType::BFloat16, "autocast");
}

}  // namespace

int main() {
  test_training();
  test_gradients();
  test_function();
  test_elements();
  test_vmap();
  test_forward_mode();
  test_autocast();
  std::printf("tensors in C++: %s\n", failures == 0 ? "good" : "failed");
  return failures == 0 ? 0 : 1;
}
