// tests/cpp/custom_function_test.cpp: functions with a derivative of their own, written in C++.
#include "tests/cpp/catch2.h"

#include <string>
#include <vector>

#include "autograd/custom_function.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using autograd::Function;
using autograd::FunctionContext;

namespace {

Tensor of(std::vector<double> values) {
  Tensor t = empty_plain({static_cast<int64_t>(values.size())}, {DType::Float64, {}});
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}

Tensor leaf(std::vector<double> values) {
  Tensor t = of(std::move(values));
  set_requires_grad(t, true);
  return t;
}

std::vector<double> values(const Tensor& t) {
  const Tensor plain = contiguous(detach(t));
  return {plain.data<double>(), plain.data<double>() + plain.numel()};
}

struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    CHECK_FALSE(grad_enabled());
    ctx.save_for_backward({x});
    return mul(mul(x, x), x);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.saved_tensors()[0];
    return {mul(mul(grads[0], mul(x, x)), 3.0)};
  }
};

struct Scale : Function<Scale> {
  static constexpr const char* name = "ScaleInPlace";
  static Tensor forward(FunctionContext& ctx, double factor, Tensor& x) {
    ctx.saved_data["factor"] = factor;
    ctx.mark_dirty({x});
    return mul_(x, factor);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    return {Tensor(), mul(grads[0], std::any_cast<double>(ctx.saved_data["factor"]))};
  }
};

struct Parts : Function<Parts> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& list,
                                     bool materialize) {
    ctx.set_materialize_grads(materialize);
    Tensor second = mul(list[1], 3.0), third = mul(list[0], 5.0);
    ctx.mark_non_differentiable({third});
    return {mul(list[0], 2.0), second, third};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    CHECK(ctx.needs_input_grad(0));
    CHECK_FALSE(ctx.needs_input_grad(1));
    CHECK_FALSE(ctx.needs_input_grad(2));
    CHECK(ctx.input_count() == 3);
    defined = {grads[0].defined(), grads[1].defined(), grads[2].defined()};
    return {mul(grads[0], 2.0)};
  }
  static inline std::vector<bool> defined;
};

struct Wrong : Function<Wrong> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return mul(x, 1.0); }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>&) {
    return {of({1, 2, 3})};
  }
};

}  // namespace

TEST_CASE("a function in C++ has its own gradients") {
  Tensor x = leaf({1, 2, -3});
  const Tensor y = Cube::apply(x);
  CHECK(grad_fn_name(y) == "CubeBackward");
  CHECK(grad_enabled());
  const Tensor g = grad({sum(y)}, {x}, {Tensor()}, true, true)[0];
  CHECK(values(g) == std::vector<double>{3, 12, 27});
  CHECK(values(grad({sum(g)}, {x}, {Tensor()})[0]) == std::vector<double>{6, 12, -18});
}

TEST_CASE("a function in C++ may change its argument") {
  Tensor x = leaf({1, 2, 3});
  Tensor h = mul(x, x), part = narrow(h, 0, 0, 2);
  Scale::apply(5.0, part);
  CHECK(grad_fn_name(h) == "CopySlices");
  backward(sum(h));
  CHECK(values(grad_of(x)) == std::vector<double>{10, 20, 6});
  CHECK(contains(message_of([&] { Scale::apply(2.0, x); }), "a leaf that requires grad"));
}

TEST_CASE("lists, several results and what has no gradient") {
  Tensor a = leaf({1}), b = of({2});
  std::vector<Tensor> parts = Parts::apply(std::vector<Tensor>{a, b}, false);
  CHECK_FALSE(parts[2].requires_grad());
  backward(sum(parts[0]));
  CHECK(Parts::defined == std::vector<bool>{true, false, false});
  parts = Parts::apply(std::vector<Tensor>{a, b}, true);
  backward(sum(parts[0]));
  CHECK(Parts::defined == std::vector<bool>{true, true, true});
  CHECK(values(grad_of(a)) == std::vector<double>{4});
}

TEST_CASE("wrong gradients and freed graphs are errors") {
  Tensor x = leaf({1, 2});
  CHECK(contains(message_of([&] { backward(sum(Wrong::apply(x))); }),
                 "WrongBackward gave a gradient of shape (3,) for argument 1"));
  const Tensor y = Cube::apply(x);
  backward(sum(y));
  CHECK(contains(message_of([&] { backward(sum(y)); }), "freed already"));
}
