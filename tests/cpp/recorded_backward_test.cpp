// tests/cpp/recorded_backward_test.cpp: captured functions on the tape: graphs that are used again,
// changed tensors, hooks, later derivatives, threads, and what is refused.
#include "tests/cpp/recorded_function.h"

#include <thread>

#include "autograd/custom_function.h"
#include "autograd/saved_hooks.h"

using namespace moonlet;
using namespace moonlet::recorded;

TEST_CASE("gradients accumulate, and graphs are used again when they are retained") {
  seed(11);
  Tensor w = leaf({3, 3});
  const Tensor x = random({2, 3});
  const auto program =
      record([=](const Tensors& in) { return Tensors{sum(exp(mm(in[0], w)))}; }, {x});
  Tensors out;
  program->run(Tensors{x}, out);
  backward({out[0]}, {}, true);
  const Tensor once = clone(grad_of(w));
  backward({out[0]}, {}, false);
  CHECK(same(grad_of(w), add(once, once)));
  CHECK(contains(message_of([&] { backward(out[0]); }), "freed already"));
  program->run(Tensors{x}, out);
  backward(out[0]);
  CHECK(same(grad_of(w), add(add(once, once), once)));
}

TEST_CASE("what was saved and changed since is an error") {
  seed(12);
  Tensor w = leaf({3, 3});
  Tensor x = random({2, 3});
  const auto program = record(
      [=](const Tensors& in) {
        return Tensors{exp(mm(in[0], w)), tanh(in[0])};
      },
      {x});
  Tensors out;
  const auto message = [&](auto&& change) {
    program->run(Tensors{x}, out);
    const NoGrad no_grad;
    change();
    const GradModeGuard on(true);
    return message_of([&] { backward({sum(out[0])}, {}); });
  };
  CHECK(contains(message([&] { add_(x, 1.0); }), "changed in place since"));
  CHECK(contains(message([&] { mul_(out[0], 2.0); }), "changed in place since"));
  CHECK(message([&] { mul_(w, 1.0); }) == "");  // the gradient of w does not read w
}

TEST_CASE("hooks of leaves run once, and not when a function is captured") {
  seed(13);
  Tensor w = leaf({3});
  int calls = 0;
  register_hook(w, [&](const Tensor& g) {
    ++calls;
    return mul(g, 2.0);
  });
  const Tensor x = random({3});
  const auto program = record([=](const Tensors& in) { return Tensors{mul(in[0], w)}; }, {x});
  CHECK(calls == 0);
  CHECK_FALSE(grad_of(w).defined());
  Tensors out;
  program->run(Tensors{x}, out);
  backward(sum(out[0]));
  CHECK(calls == 1);
  CHECK(same(grad_of(w), mul(x, 2.0)));
}

TEST_CASE("second derivatives") {
  const auto d = DType::Float64;
  seed(14);
  const Tensor x = leaf({4, 3}, 1, d), w = leaf({3, 3}, 1, d), b = leaf({3}, 1, d);
  SECTION("of a perceptron") {
    check_second(
        [=](const Tensors& in) {
          return Tensors{tanh(linear(in[0], w, b)), exp(mul(in[0], 0.5))};
        },
        {x}, {x, w, b});
  }
  SECTION("where f detaches and does not record") {
    check_second(
        [=](const Tensors& in) {
          Tensor h = mm(in[0], w);
          Tensor scale;
          {
            const NoGrad no_grad;
            scale = sum(mul(h, h));
          }
          return Tensors{mul(mul(mul(h, h), detach(h)), scale)};
        },
        {x}, {x, w});
  }
  SECTION("with changes in place and views") {
    check_second(
        [=](const Tensors& in) {
          Tensor h = mul(in[0], in[0]);
          Tensor row = select(h, 0, 2);
          mul_(row, sum(w));
          return Tensors{mul(h, exp(h)), transpose(h, 0, 1)};
        },
        {x}, {x, w});
  }
  SECTION("with dropout and running statistics") {
    const Tensor mean = zeros({3}, {d, {}}), var = ones({3}, {d, {}});
    const Function f = [=](const Tensors& in) {
      return Tensors{dropout(batch_norm(mm(in[0], w), mean, var, b, b, true), 0.3, true)};
    };
    check_second(f, {x}, {x, w, b});
    const auto program = record(f, {x});
    const Tensor before = clone(mean);
    Tensors out;
    program->run(Tensors{x}, out);
    const Tensor after = clone(mean);
    CHECK_FALSE(same(before, after));
    const Philox numbers = default_generator().state();
    const Tensors g = grad({sum(mul(out[0], out[0]))}, {w}, {}, true, true);
    CHECK(same(mean, after));
    CHECK(default_generator().state().offset == numbers.offset);
  }
}

TEST_CASE("a function whose own backward has freed its graph") {
  seed(15);
  Tensor w = leaf({3});
  const Function f = [=](const Tensors& in) {
    const Tensor loss = sum(mul(mul(w, w), in[0]));
    const Tensor g = grad({loss}, {w}, {})[0];
    Tensor to = w;
    const NoGrad no_grad;
    add_(to, mul(g, -0.1));
    return Tensors{loss};
  };
  const Tensor x = random({3});
  Tensor first = clone(detach(w));
  const auto program = record(f, {x});
  const Tensor stepped = clone(detach(w));
  {
    const NoGrad no_grad;
    copy_(w, first);
  }
  Tensors out;
  program->run(Tensors{x}, out);
  CHECK(same(w, stepped));
  CHECK(out[0].requires_grad());
  CHECK(contains(message_of([&] { backward(out[0]); }), "freed already"));
}

struct Twice : autograd::Function<Twice> {
  static Tensor forward(autograd::FunctionContext&, const Tensor& x) { return mul(x, 2.0); }
  static Tensors backward(autograd::FunctionContext&, const Tensors& grads) {
    return {mul(grads[0], 2.0)};
  }
};

TEST_CASE("what graphs cannot stand for is refused with a reason") {
  seed(16);
  const Tensor w = leaf({3}), x = random({3});
  CHECK(contains(
      refusal([=](const Tensors& in) { return Tensors{Twice::apply(mul(in[0], w))}; }, {x}),
      "TwiceBackward"));
  CHECK(contains(refusal(
                     [=](const Tensors& in) {
                       Tensor y = mul(in[0], w);
                       register_hook(y, [](const Tensor& g) { return g; });
                       return Tensors{exp(y)};
                     },
                     {x}),
                 "hook"));
  CHECK(contains(refusal(
                     [=](const Tensors& in) {
                       Tensor own = mul(in[0], 2.0);
                       set_requires_grad(own, true);
                       return Tensors{mul(mul(in[0], own), w)};
                     },
                     {x}),
                 "leaf that it makes"));
  CHECK(contains(refusal(
                     [=](const Tensors& in) {
                       Tensor y = in[0];
                       mul_(y, w);
                       return Tensors{sum(y)};
                     },
                     {clone(x)}),
                 "in place"));
  const Tensor rows = leaf({4, 2});
  CHECK(contains(
      refusal([=](const Tensors& in) { return Tensors{embedding(rows, in[0], 0, false, true)}; },
              {integers({1, 3}, {2})}),
      "sparse"));
}

TEST_CASE("threads run one program at a time each") {
  seed(17);
  const Tensor w = leaf({16, 16}, 0.2);
  const auto program =
      record([=](const Tensors& in) { return Tensors{tanh(mm(tanh(mm(in[0], w)), w))}; },
             {random({4, 16})});
  std::vector<Tensor> x, expected(4), found(4);
  for (int i = 0; i < 4; ++i) x.push_back(leaf({4, 16}));
  const auto run = [&](int i) {
    Tensors out;
    program->run(Tensors{x[i]}, out);
    return grad({sum(out[0])}, {w}, {})[0];
  };
  // The captured input required no grad; one that does gets none, as its guards would see.
  for (int i = 0; i < 4; ++i) expected[i] = run(i);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) found[i] = run(i);
    });
  for (std::thread& each : threads) each.join();
  for (int i = 0; i < 4; ++i) CHECK(same(expected[i], found[i]));
}

namespace {

// Keeps halves of what is saved.
class Halving final : public SavedTensorHooks {
 public:
  std::shared_ptr<PackedTensor> pack(const Tensor& t) override {
    class Half final : public PackedTensor {
     public:
      explicit Half(Tensor t) : t_(std::move(t)) {}
      Tensor unpack() const override { return mul(t_, 2.0); }

     private:
      const Tensor t_;
    };
    return std::make_shared<Half>(mul(t, 0.5));
  }
};

}  // namespace

TEST_CASE("hooks of saved tensors run where the caller lets them") {
  seed(18);
  const Tensor w = leaf({3, 3}), x = random({2, 3});
  const Function f = [=](const Tensors& in) {
    Halving halving;
    const ModeScope scope(halving);
    return Tensors{exp(mm(in[0], w))};
  };
  std::string reason;
  CHECK(try_record(f, {x}, reason) == nullptr);
  CHECK(contains(reason, "hooks of saved tensors"));
  const auto program = try_record(f, {x}, reason, true);
  REQUIRE(program != nullptr);
  check_same(outcome(f, {x}, {w}, {}), outcome(compiled(program), {x}, {w}, {}));
}
