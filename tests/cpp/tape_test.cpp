// tests/cpp/tape_test.cpp: the tape from C++: recording, backward, in-place changes through views,
// ml.grad's core, hooks, long chains, and two threads on graphs that share leaves.
#include "tests/cpp/catch2.h"

#include <string>
#include <thread>
#include <vector>

#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_gather.h"
#include "autograd/ops_loss.h"
#include "autograd/ops_math.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "autograd/tape.h"
#include "tensor/core/warning.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

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

}  // namespace

TEST_CASE("leaves accumulate") {
  Tensor a = leaf({1, 2, 3});
  for (int round = 1; round <= 2; ++round) {
    backward({sum(mul(a, a))}, {Tensor()});
    CHECK(values(grad_of(a)) == std::vector<double>{2.0 * round, 4.0 * round, 6.0 * round});
  }
  set_grad(a, Tensor());
  CHECK_FALSE(grad_of(a).defined());
  CHECK(grad_fn_name(mul(a, a)) == "MulBackward");
  CHECK(is_leaf(a));
}

TEST_CASE("a broadcast gradient is summed and cast") {
  Tensor a = leaf({1, 2, 3});
  Tensor b = ones({1}, {DType::Float32, {}});
  set_requires_grad(b, true);
  backward({sum(mul(a, b))}, {Tensor()});
  CHECK(grad_of(b).dtype() == DType::Float32);
  CHECK(grad_of(b).data<float>()[0] == 6);
}

TEST_CASE("nothing is recorded under a guard, which ends with its scope") {
  Tensor a = leaf({1});
  {
    GradModeGuard off(false);
    CHECK_FALSE(mul(a, a).requires_grad());
  }
  CHECK(mul(a, a).requires_grad());
}

TEST_CASE("a second backward is an error unless the graph is kept") {
  Tensor a = leaf({3});
  Tensor y = sum(mul(a, a));
  backward({y}, {Tensor()}, true);
  backward({y}, {Tensor()});
  CHECK(contains(message_of([&] { backward({y}, {Tensor()}); }), "retain_graph"));
  CHECK(values(grad_of(a)) == std::vector<double>{12});
}

TEST_CASE("in-place changes: leaves, saved tensors, views") {
  Tensor a = leaf({1, 2, 3, 4});
  CHECK(contains(message_of([&] { add_(a, 1.0); }), "leaf"));
  Tensor e = exp(a);
  add_(e, 1.0);
  const std::string text = message_of([&] { backward({sum(e)}, {Tensor()}); });
  CHECK(contains(text, "ExpBackward"));
  CHECK(contains(text, "add_"));

  Tensor x = mul(a, 1.0);
  Tensor view = slice(x, 0, 1, 3, 1);
  mul_(view, 10.0);
  backward({sum(mul(x, x))}, {Tensor()});
  CHECK(values(grad_of(a)) == std::vector<double>{2, 400, 600, 8});
}

TEST_CASE("grad, also of a gradient") {
  Tensor a = leaf({2});
  Tensor unused = leaf({1});
  const Tensor y = sum(mul(mul(a, a), a));
  const Tensor first = grad({y}, {a}, {Tensor()}, true, true)[0];
  CHECK(values(first) == std::vector<double>{12});
  const Tensor second = grad({sum(first)}, {a}, {Tensor()}, true, true)[0];
  CHECK(values(second) == std::vector<double>{12});
  CHECK(contains(message_of([&] { grad({y}, {unused}, {Tensor()}, true); }), "allow_unused"));
  CHECK_FALSE(grad({y}, {unused}, {Tensor()}, true, false, true)[0].defined());
  CHECK_FALSE(grad_of(a).defined());
}

TEST_CASE("hooks see, replace and throw") {
  Tensor a = leaf({1, 2});
  Tensor y = mul(a, 3.0);
  HookHandle handle = register_hook(y, [](const Tensor& g) { return mul(g, 2.0); });
  retain_grad(y);
  backward({sum(y)}, {Tensor()}, true);
  CHECK(values(grad_of(a)) == std::vector<double>{6, 6});
  CHECK(grad_of(y).defined());
  handle.remove();
  register_hook(y, [](const Tensor&) -> Tensor { throw Error("hook failed"); });
  CHECK(message_of([&] { backward({sum(y)}, {Tensor()}, true); }) == "hook failed");
  CHECK(grad_enabled());
}

TEST_CASE("a chain of 200,000 nodes") {
  const int64_t before = live_bytes();
  {
    Tensor a = leaf({1});
    Tensor x = a;
    for (int i = 0; i < 200000; ++i) x = add(x, 1.0);
    backward({sum(x)}, {Tensor()});
    CHECK(values(grad_of(a)) == std::vector<double>{1});
    x = a;
    for (int i = 0; i < 200000; ++i) x = mul(x, x);  // freed without a backward
  }
  CHECK(live_bytes() == before);
}

TEST_CASE("two threads record and run backward on graphs that share leaves") {
  Tensor a = leaf({1, 2, 3, 4});
  constexpr int kRounds = 500;
  const auto work = [&a](double factor) {
    for (int i = 0; i < kRounds; ++i) {
      Tensor x = mul(a, factor);
      Tensor part = slice(x, 0, 0, 2, 1);
      mul_(part, 2.0);
      backward({sum(x)}, {Tensor()});
    }
  };
  std::thread one(work, 1.0), two(work, 10.0);
  one.join();
  two.join();
  CHECK(values(grad_of(a)) == std::vector<double>{11.0 * 2 * kRounds, 11.0 * 2 * kRounds,
                                                  11.0 * kRounds, 11.0 * kRounds});
}

TEST_CASE("a sparse gradient in C++") {
  Tensor w = leaf({1, 2, 3, 4, 5, 6});
  w = detach(view(w, {3, 2}));
  set_requires_grad(w, true);
  const Tensor at = add(ones({4}, {DType::Int64, {}}), int64_t{1});
  const auto use = [&] { backward({sum(embedding(w, at, 0, false, true))}, {Tensor()}); };
  use();
  CHECK(values(grad_of(w)) == std::vector<double>{0, 0, 4, 4, 0, 0});
  const std::shared_ptr<SharedRows> rows = gradient_of(w).rows;
  REQUIRE(rows);
  CHECK_FALSE(gradient_of(w).dense.defined());
  CHECK(rows->get().positions.numel() == 4);
  CHECK(rows->get().coalesce().positions.numel() == 1);

  Tensor other = detach(w);
  set_requires_grad(other, true);
  set_sparse_grad(other, rows);
  CHECK(values(grad_of(other)) == std::vector<double>{0, 0, 4, 4, 0, 0});
  set_grad(other, {});
  CHECK_FALSE(grad_of(other).defined());

  set_grad(w, {});
  constexpr int kRounds = 200;
  const auto work = [&] {
    for (int i = 0; i < kRounds; ++i) use();
  };
  std::thread one(work), two(work);
  for (int i = 0; i < kRounds; ++i) grad_of(w);  // reads what the others write
  one.join();
  two.join();
  CHECK(gradient_of(w).rows->get().positions.numel() == 8 * kRounds);
}

TEST_CASE("the mode belongs to a thread") {
  GradModeGuard off(false);
  bool other = false;
  std::thread([&other] { other = grad_enabled(); }).join();
  CHECK(other);
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("a loss whose shapes differ warns the handler of warnings") {
  static std::vector<std::string> messages;
  set_warning_handler([](const char* key, const std::string& message) {
    messages.push_back(std::string(key) + " | " + message);
    return true;
  });
  const Tensor row = of({1, 2}), column = reshape(of({1, 2}), {2, 1});
  mse_loss(row, row, "mean");
  CHECK(messages.empty());
  CHECK(values(mse_loss(row, column, "sum"))[0] == 2);
  set_warning_handler(nullptr);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].find("mse_loss | mse_loss: the target has shape (2, 1)") == 0);
}
