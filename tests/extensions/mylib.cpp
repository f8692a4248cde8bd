// tests/extensions/mylib.cpp: an extension with ops of all kinds, functions and a class, for
// tests/lua/extension/.
#include <cmath>

#include "interp/embed/extension/extension.h"

using namespace moonlet;

namespace {

// --- pointwise -----------------------------------------------------------------------------------

// Sizes and strides of a plan's operand, element by element: what a kernel of another device does.
template <class F>
void each_element(const PointwisePlan& plan, F&& f) {
  for (int64_t at = 0; at < plan.numel; ++at) {
    int64_t offsets[kMaxPointwiseInputs + 1] = {}, rest = at;
    for (int d = 0; d < plan.ndim; ++d) {
      const int64_t k = rest % plan.sizes[d];
      rest /= plan.sizes[d];
      offsets[0] += k * plan.out.strides[d];
      for (int i = 0; i < plan.inputs; ++i) offsets[i + 1] += k * plan.in[i].strides[d];
    }
    f(offsets);
  }
}

// The emulated device has memory of the host, so a "launch" is a loop.
void snake_on_device(const PointwisePlan& plan) {
  if (plan.compute != DType::Float32 || plan.out.dtype != DType::Float32)
    fail("mylib::snake: the test's device computes float32 alone");
  const float a = plan.params[0].to<float>();
  each_element(plan, [&](const int64_t* offsets) {
    const float x = *reinterpret_cast<const float*>(plan.in[0].data + offsets[1]);
    const float s = std::sin(a * x);
    *reinterpret_cast<float*>(plan.out.data + offsets[0]) = x + s * s / a;
  });
}

void add_pointwise(Extension& module) {
  module.op<"mylib::snake(Tensor x, double a = 1.0) -> Tensor">()
      .pointwise([](auto x, auto a) {
        const auto s = std::sin(a * x);
        return x + s * s / a;
      })
      .pointwise_on("cuda", &snake_on_device)
      .saves({"x"})
      .gradient("x",
                [](const Derivative& d) {
                  return d.grad() * (sin(d.tensor("x") * (2 * d.number("a"))) + 1.0);
                })
      .inplace()
      .doc("The activation `x + sin(a * x)^2 / a`, by which networks learn periodic functions.")
      .argument("a", "the frequency, above 0")
      .example("ml.ops.mylib.snake(ml.zeros(2))")
      .sample("randn(3, 4)")
      .sample("randn(2, 3, 2), 2.5")
      .sample("randn({}), 0.5");

  // Integers too, two tensors, a number in the place of one, and a rule for tangents.
  module.op<"mylib::blend(Tensor x, Operand y, float weight=0.5) -> Tensor">()
      .pointwise<float, double, complex64, complex128>(
          [](auto x, auto y, auto weight) { return x + weight * (y - x); })
      .gradient("x", [](const Derivative& d) { return d.grad() * (1.0 - d.number("weight")); })
      .gradient("y", [](const Derivative& d) { return d.grad() * d.number("weight"); })
      .jvp([](const JvpArguments& a) {
        const double weight = a.number("weight");
        const Tensor x = a.tangent("x"), y = a.tangent("y");
        Tensor sum;
        if (x.defined()) sum = x * (1.0 - weight);
        if (y.defined()) sum = sum.defined() ? sum + y * weight : y * weight;
        return std::vector<Tensor>{sum};
      })
      .sample("randn(3, 4), randn(4), 0.25")
      .sample("randn(2, 2), 3");

  module.op<"mylib::halved(Tensor x) -> Tensor">()
      .pointwise<float, double, int64_t>([](auto x) { return x / 2; })
      .dtypes(dtypes::integral | dtypes::floating)
      .sample("randint(-9, 9, {3, 4})");
}

// --- over strided tensors ------------------------------------------------------------------------

// Calls f(x, y, z, k) with the positions of element k of each row along `dim`.
template <class F>
void each_row(const Tensor& x, int64_t dim, F&& f) {
  const int64_t n = x.size(static_cast<int>(dim));
  int64_t rows = 1;
  for (int d = 0; d < x.dim(); ++d)
    if (d != dim) rows *= x.size(d);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, offset = 0;
    for (int d = x.dim() - 1; d >= 0; --d) {
      if (d == dim) continue;
      offset += rest % x.size(d) * x.strides()[d];
      rest /= x.size(d);
    }
    f(row, offset, n, x.strides()[static_cast<int>(dim)]);
  }
}

template <class T>
T* elements(const Tensor& x) {
  return reinterpret_cast<T*>(x.raw());
}

shapes::Result without(const Tensor& x, int64_t dim) {
  Dims sizes;
  for (int d = 0; d < x.dim(); ++d)
    if (d != dim) sizes.push_back(x.size(d));
  return {sizes, options_of(x)};
}

template <class T>
double loaded(const Tensor& x, int64_t at) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  return static_cast<double>(static_cast<Wide>(elements<T>(x)[at]));
}

void norm_and_mean(const Tensor& x, int64_t dim, Tensor& norm, Tensor& mean) {
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    each_row(x, dim, [&](int64_t row, int64_t offset, int64_t n, int64_t stride) {
      double squares = 0, sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double value = loaded<T>(x, offset + k * stride);
        squares += value * value;
        sum += value;
      }
      elements<T>(norm)[row] = Scalar(std::sqrt(squares)).to<T>();
      elements<T>(mean)[row] = Scalar(sum / static_cast<double>(n)).to<T>();
    });
  });
}

void add_structured(Extension& module) {
  module.op<"mylib::norm_and_mean(Tensor x, Dim dim=-1) -> (Tensor norm, Tensor mean)">()
      .dtypes(dtypes::floating)
      .kernel(&norm_and_mean)
      .shape([](const Tensor& x, int64_t dim) {
        check(x.size(static_cast<int>(dim)) > 0,
              "mylib::norm_and_mean: expected a dimension of 1 or more, got 0");
        return std::array{without(x, dim), without(x, dim)};
      })
      .saves({"x", "norm"})
      .gradient("x",
                [](const Derivative& d) {
                  const int64_t dim = d.integer("dim");
                  const Tensor x = d.tensor("x");
                  const Tensor norm = unsqueeze(d.tensor("norm"), dim);
                  const auto n = static_cast<double>(x.size(static_cast<int>(dim)));
                  return x / norm * unsqueeze(d.grad(0), dim) +
                         expand(unsqueeze(d.grad(1), dim), x.sizes()) / n;
                })
      .vmap(&batching::dims)
      .sample("randn(3, 4), 2")
      .sample("randn(2, 3, 4), 1")
      .sample("rand(5)");
}

void add_of_several(Extension& module) {
  // An optional tensor.
  module.op<"mylib::affine(Tensor x, Tensor w, Tensor? b) -> Tensor">()
      .dtypes(dtypes::floating)
      .kernel([](const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
        Tensor made = x * w;
        if (b.defined()) made = made + b;
        copy_(y, made);
      })
      .shape([](const Tensor& x, const Tensor& w, const Tensor& b) {
        shapes::check_same_shape("mylib::affine", x, w);
        if (b.defined()) shapes::check_same_shape("mylib::affine", x, b);
        return shapes::like(x);
      })
      .saves({"x", "w"})
      .gradient("x", [](const Derivative& d) { return d.grad() * d.tensor("w"); })
      .gradient("w", [](const Derivative& d) { return d.grad() * d.tensor("x"); })
      .gradient("b", [](const Derivative& d) { return d.grad(); })
      .autocast(AutocastPolicy::LowerPrecision)
      .vmap(&batching::all)
      .sample("randn(3, 4), randn(3, 4), randn(3, 4)")
      .sample("randn(3), randn(3)");

  // A list of tensors.
  module.op<"mylib::sum_of(Tensor[] xs) -> Tensor">()
      .dtypes(dtypes::floating)
      .kernel([](const std::vector<Tensor>& xs, Tensor& y) {
        fill_(y, 0.0);
        for (const Tensor& x : xs) add_(y, x);
      })
      .shape([](const std::vector<Tensor>& xs) {
        for (const Tensor& x : xs) shapes::check_same_shape("mylib::sum_of", xs[0], x);
        return shapes::like(xs[0]);
      })
      .gradients({"xs"},
                 [](const Derivative& d) { return std::vector<Tensor>(d.count("xs"), d.grad()); })
      .linear()
      .no_method()
      .sample("{randn(3), randn(3), randn(3)}");
}

// --- in place, and made of others ----------------------------------------------------------------

void add_others(Extension& module) {
  module.op<"mylib::scale_rows(Tensor! x, Tensor scale) -> Tensor">()
      .dtypes(dtypes::floating)
      .kernel([](Tensor& x, const Tensor& scale) { mul_(x, unsqueeze(scale, 1)); })
      .shape([](const Tensor& x, const Tensor& scale) {
        check(x.dim() == 2 && scale.dim() == 1 && scale.size(0) == x.size(0),
              "mylib::scale_rows: expected x (n, m) and scale (n), got ", x.sizes(), " and ",
              scale.sizes());
      })
      .saves({"x", "scale"})
      .gradient("x", [](const Derivative& d) { return d.grad() * unsqueeze(d.tensor("scale"), 1); })
      .gradient("scale",
                [](const Derivative& d) {
                  return sum(d.grad() * d.tensor("x"), {1}, false, std::nullopt);
                })
      .sample("randn(3, 4), randn(3)");

  module.op<"mylib::cube(Tensor x) -> Tensor">()
      .dtypes(dtypes::floating)
      .composite([](const Tensor& x) { return x * x * x; })
      .inplace()
      .sample("randn(3, 4)");

  // Made of others, with a derivative of its own.
  module.op<"mylib::swish(Tensor x, bool fast=false) -> Tensor">()
      .dtypes(dtypes::floating)
      .composite([](const Tensor& x, bool) { return x * sigmoid(x); })
      .saves({"x"})
      .gradient("x",
                [](const Derivative& d) {
                  const Tensor x = d.tensor("x"), s = sigmoid(x);
                  return d.grad() * (s + x * s * (1.0 - s));
                })
      .sample("randn(3, 4)");

  // Without a library's name it is a function of `ml`.
  module.op<"mylib_doubled(Tensor x) -> Tensor">()
      .dtypes(dtypes::floating)
      .composite([](const Tensor& x) { return x + x; })
      .sample("randn(3)");
}

void add_in_turn(Extension& module) {
  // With a derivative that is an op of its own, and has one in its turn.
  module.op<"mylib::cosine_by(Tensor grad, Tensor x) -> Tensor">()
      .pointwise([](auto grad, auto x) { return grad * std::cos(x); })
      .saves({"grad", "x"})
      .gradient(
          "grad",
          [](const Derivative& d) { return call_op("mylib::cosine_by", d.grad(), d.tensor("x")); })
      .gradient("x",
                [](const Derivative& d) {
                  return -(d.grad() * d.tensor("grad") * call_op("mylib::sine", d.tensor("x")));
                })
      .no_method()
      .sample("randn(3, 4), randn(3, 4)");
  module.op<"mylib::sine(Tensor x) -> Tensor">()
      .pointwise([](auto x) { return std::sin(x); })
      .saves({"x"})
      .gradient(
          "x",
          [](const Derivative& d) { return call_op("mylib::cosine_by", d.grad(), d.tensor("x")); })
      .sample("randn(3, 4)");

  // Without a derivative.
  module.op<"mylib::signs(Tensor x, int base=2, string rule=\"up\") -> Tensor">()
      .dtypes(dtypes::floating)
      .kernel([](const Tensor& x, int64_t base, const std::string& rule, Tensor& y) {
        const double step = rule == "up" ? static_cast<double>(base) : -static_cast<double>(base);
        copy_(y, sign(x) * step);
      })
      .sample("randn(3, 4), 3");
}

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int n) { return value_ += n; }

 private:
  int value_;
};

double twice(double x) { return 2 * x; }
Tensor shifted(const Tensor& x, double by) { return x + by; }

}  // namespace

MOONLET_EXTENSION(mylib, module) {
  module.function("twice", &twice);
  module.function("shifted", &shifted);
  module.set("answer", 42);
  module.bind<Counter>("Counter").constructor<int>().method("add", &Counter::add);
  add_pointwise(module);
  add_structured(module);
  add_of_several(module);
  add_others(module);
  add_in_turn(module);
}
