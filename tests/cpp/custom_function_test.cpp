// tests/cpp/custom_function_test.cpp: functions with a derivative of their own, written in C++.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <string>
#include <vector>

#include "autograd/custom_function.h"
#include "autograd/forward_mode.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "autograd/vmap.h"
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

// Computes past the ops, which no mode sees.
Tensor cubes(const Tensor& x) {
  Tensor y = empty_plain(x.sizes(), {DType::Float64, {}});
  for (int64_t i = 0; i < x.numel(); ++i) y.data<double>()[i] = std::pow(x.data<double>()[i], 3);
  return y;
}

struct RawCube : Function<RawCube> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return cubes(x);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.saved_tensors()[0];
    return {mul(mul(grads[0], mul(x, x)), 3.0)};
  }
};

// Its backward is past the ops, too.
struct RawBothWays : Function<RawBothWays> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return cubes(x); }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {detach(grads[0])};
  }
};

struct WithJvp : Function<WithJvp> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return cubes(x);
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {detach(grads[0])};
  }
  static std::vector<Tensor> jvp(FunctionContext& ctx, const std::vector<Tensor>& tangents) {
    const Tensor x = ctx.saved_tensors()[0];
    return {mul(mul(tangents[0], mul(x, x)), 3.0)};
  }
};

template <class F>
std::vector<double> tangent(F f) {
  const DualLevel level;
  const Tensor found = level.unpack(f(level.make_dual(of({1, 2}), of({1, 10})))).tangent;
  return found.defined() ? values(found) : std::vector<double>{};
}

}  // namespace

TEST_CASE("a function in C++ has tangents, whatever its forward computes by") {
  const std::vector<double> right{3, 120};
  CHECK(tangent([](const Tensor& x) { return Cube::apply(x); }) == right);
  CHECK(tangent([](const Tensor& x) { return RawCube::apply(x); }) == right);
  CHECK(tangent([](const Tensor& x) { return WithJvp::apply(x); }) == right);
  CHECK(tangent([](const Tensor& x) {
          Tensor y = mul(x, 1.0);
          return Scale::apply(5.0, y), y;
        }) == std::vector<double>{5, 50});
  CHECK(contains(message_of([] { tangent([](const Tensor& x) { return RawBothWays::apply(x); }); }),
                 "RawBothWays: a tensor with a tangent was given, and the function has no jvp"));
}

TEST_CASE("tangents of a function in C++ have tangents and gradients") {
  const auto along = [](const Tensor& x) {
    const DualLevel level;
    return level.unpack(RawCube::apply(level.make_dual(x, of({1, 10})))).tangent;
  };
  CHECK(tangent(along) == std::vector<double>{6, 1200});
  Tensor x = leaf({1, 2});
  CHECK(values(grad({sum(along(x))}, {x}, {Tensor()})[0]) == std::vector<double>{6, 120});
  CHECK(tangent([](const Tensor& dual) {
          Tensor p = differentiation_input(dual);
          return grad({sum(RawCube::apply(p))}, {p}, {Tensor()})[0];
        }) == std::vector<double>{6, 120});
}

TEST_CASE("a function in C++ inside vmap") {
  const auto each = [](const Tensor& x, auto f) {
    return vmap([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; },
                {x})[0];
  };
  const Tensor x = reshape(of({1, 2, 3, 4}), {2, 2});
  const auto cube = [](const Tensor& v) { return Cube::apply(v); };
  CHECK(values(each(x, cube)) == std::vector<double>{1, 8, 27, 64});
  CHECK(contains(message_of([&] { each(x, [](const Tensor& v) { return RawCube::apply(v); }); }),
                 "stands for the samples of a vmap"));
  Tensor p = clone(x);
  set_requires_grad(p, true);
  CHECK(contains(message_of([&] { each(p, cube); }), "Cube: a function in C++ inside vmap"));
}

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
