// tests/cpp/program_test.cpp: graphs that a capture writes, and plans that run them.
#include <cstring>

#include "autograd/host_value.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "tensor/memory/budget.h"
#include "tensor/program/capture.h"
#include "tensor/program/reclaim.h"
#include "tensor/program/runner.h"
#include "tests/cpp/catch2.h"

using namespace moonlet;
using namespace moonlet::program;

namespace {

Tensor range(Dims sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return view(to(arange(n), DType::Float32), sizes);
}

// The graph of f on the inputs, with grad mode off.
template <class F>
Graph captured(const std::vector<Tensor>& inputs, F&& f, std::string* stopped = nullptr) {
  const GradModeGuard off(false);
  Capture capture;
  std::vector<Tensor> outputs;
  for (const Tensor& x : inputs) capture.add_input(x);
  {
    const CaptureScope scope(capture);
    outputs = f(inputs);
  }
  for (const Tensor& y : outputs) capture.add_output(y);
  if (stopped) *stopped = capture.stopped().value_or("");
  return capture.take();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = contiguous(a), y = contiguous(b);
  return x.dtype() == y.dtype() && x.sizes() == y.sizes() &&
         std::memcmp(x.raw(), y.raw(), x.numel() * size_of(x.dtype())) == 0;
}

}  // namespace

TEST_CASE("a capture writes primitive ops") {
  const Tensor x = range({2, 3}), w = range({3, 4});
  const Graph graph = captured(
      {x}, [&](const auto& in) { return std::vector{relu(add(matmul(in[0], w), Scalar(1.0)))}; });
  const std::string text = to_string(graph);
  INFO(text);
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.parameters.size() == 1);
  CHECK(graph.parameters[0].tensor.is_same(w));
  CHECK(text.find("mm(") != std::string::npos);
  CHECK(text.find("relu(") != std::string::npos);
}

TEST_CASE("a plan runs what was captured on other inputs") {
  const Tensor w = range({3, 4});
  const auto f = [&](const std::vector<Tensor>& in) {
    const Tensor h = exp(mul(matmul(in[0], w), Scalar(0.01)));
    const Tensor s = sum(h, Dims{1}, true);
    return std::vector{div(h, s), sum(transpose(h, 0, 1), Dims{}, false), in[0]};
  };
  const Tensor x = range({2, 3});
  Runner runner(Plan::make(captured({x}, f)));
  for (int i = 0; i < 3; ++i) {
    const Tensor y = sub(range({2, 3}), Scalar(static_cast<int64_t>(i)));
    const auto expected = f({y});
    std::vector<Tensor> got;
    runner.run(std::vector{y}, got);
    REQUIRE(got.size() == 3);
    CHECK(same_bits(got[0], expected[0]));
    CHECK(same_bits(got[1], expected[1]));
    CHECK(got[2].is_same(y));
    // Outputs that are given are written.
    std::vector<Tensor> given{zeros_like(got[0]), zeros_like(got[1])};
    const Tensor first = given[0];
    runner.run(std::vector{y}, given);
    CHECK(given[0].is_same(first));
    CHECK(same_bits(first, expected[0]));
  }
}

TEST_CASE("a program changes inputs and parameters in place") {
  Tensor count = zeros({3});
  const auto f = [&](const std::vector<Tensor>& in) {
    Tensor x = in[0];
    add_(count, Scalar(1.0));
    Tensor row = select(x, 0, 1);
    mul_(row, Scalar(2.0));
    Tensor copy = clone(x);
    add_(copy, count);
    return std::vector{copy, row};
  };
  Tensor x = range({2, 3});
  Runner runner(Plan::make(captured({x}, f)));
  const uint32_t version = count.storage().version();
  Tensor y = range({2, 3});
  std::vector<Tensor> got;
  runner.run(std::vector{y}, got);
  CHECK(host_value<float>(select(count, 0, 0)) == 2.0f);
  CHECK(count.storage().version() > version);
  Tensor z = range({2, 3});
  CHECK(same_bits(y, x));
  CHECK(&got[1].storage() == &y.storage());
  const auto expected = f({z});
  CHECK(same_bits(select(expected[0], 0, 1), add(select(got[0], 0, 1), Scalar(1.0))));
}

TEST_CASE("inputs of another geometry, or that share memory, are refused") {
  const auto f = [&](const std::vector<Tensor>& in) {
    Tensor x = in[0];
    add_(x, in[1]);
    return std::vector{x};
  };
  Runner runner(Plan::make(captured({range({2, 3}), range({2, 3})}, f)));
  std::vector<Tensor> got;
  const Tensor x = range({2, 3});
  CHECK_THROWS_WITH(runner.run(std::vector{x, range({3, 2})}, got),
                    Catch::Contains("expected input 2 to be"));
  CHECK_THROWS_WITH(runner.run(std::vector{x, x}, got), Catch::Contains("shares memory"));
  CHECK_THROWS_WITH(runner.run(std::vector{x}, got), Catch::Contains("expected 2 inputs, got 1"));
  runner.run(std::vector{x, range({2, 3})}, got);
  CHECK(got[0].is_same(x));
}

TEST_CASE("what is no function of the inputs ends a capture") {
  std::string stopped;
  captured(
      {range({3})}, [&](const auto& in) { return std::vector{nonzero(in[0])}; }, &stopped);
  CHECK(stopped == "nonzero gives a result whose size depends on values");
  captured(
      {range({3})},
      [&](const auto& in) {
        host_value<float>(select(in[0], 0, 0));
        return std::vector<Tensor>{};
      },
      &stopped);
  CHECK(stopped == "a check of values reads values");
}

TEST_CASE("a whole training step is captured with its backward") {
  Tensor w = range({3, 2});
  set_requires_grad(w, true);
  const Tensor x = range({4, 3});
  const auto step = [&](const std::vector<Tensor>& in) {
    const Tensor loss = sum(pow(matmul(in[0], w), Scalar(2.0)), Dims{}, false);
    return grad(std::vector{loss}, std::vector{w}, {});
  };
  Capture capture;
  capture.add_input(x);
  std::vector<Tensor> expected;
  {
    const CaptureScope scope(capture);
    expected = step({x});
  }
  for (const Tensor& g : expected) capture.add_output(g);
  REQUIRE(!capture.stopped());
  Runner runner(Plan::make(capture.take()));
  const Tensor y = add(x, Scalar(1.0));
  std::vector<Tensor> got;
  runner.run(std::vector{y}, got);
  CHECK(same_bits(got[0], step({y})[0]));
}

namespace {

// Lets go of a tensor.
class LetsGo final : public Reclaimer {
 public:
  explicit LetsGo(Tensor& held) : held_(held) {}
  void reclaim() override {
    held_ = Tensor();
    ++calls;
  }
  int calls = 0;

 private:
  Tensor& held_;
};

}  // namespace

TEST_CASE("a run that finds no memory goes on when some was let go") {
  constexpr int64_t kBytes = int64_t{1} << 20, kCount = kBytes / 4;
  Tensor counter = zeros({1});
  const Tensor x = range({kCount});
  const auto f = [&](const std::vector<Tensor>& in) {
    Tensor counted = counter;
    add_(counted, 1.0);
    return std::vector{cumsum(in[0], 0), std::get<0>(sort(in[0], 0, true))};
  };
  Runner runner(Plan::make(captured({x}, f)));
  std::vector<Tensor> expected, found;
  runner.run(std::vector{x}, expected);
  Runner again(Plan::make(captured({x}, f)));
  auto* const budget = new memory::Budget(5 * kBytes);
  Tensor held;
  memory::switch_account(budget, nullptr);
  held = empty({3 * kCount + kCount / 2}, {DType::Float32, {}});
  CHECK_THROWS_AS(runner.run(std::vector{x}, found), OutOfMemory);
  found.clear();
  {
    // One that threw is not used again.
    LetsGo reclaimer(held);
    const float start = host_value<float>(counter);
    again.run(std::vector{x}, found);
    CHECK(reclaimer.calls == 1);
    CHECK(host_value<float>(counter) == start + 1);
  }
  memory::switch_account(nullptr, nullptr);
  for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  found.clear();
  budget->release();
}
