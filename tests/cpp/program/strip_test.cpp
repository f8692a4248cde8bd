// tests/cpp/program/strip_test.cpp: strips, which run reductions, softmax, norms, gathers, dropout
// and the loops around them some rows at a time: the bits, random numbers and errors of ops that
// run one after the other; what memory that is shared forbids; and what a plan says of what it
// fused.
#include "tests/cpp/catch2.h"

#include <cstring>
#include <random>

#include "tensor/core/error.h"
#include "tensor/program/apart.h"
#include "tensor/program/runner.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/random_generator.h"
#include "tensor/runtime/threads.h"
#include "tests/cpp/messages.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

Tensor drawn(const Dims& sizes, DType dtype, std::mt19937& random) {
  Tensor x = empty_plain(sizes, {DType::Float64, {}});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = static_cast<double>(random() % 4096) / 512 - 4;
  Tensor out = empty_plain(sizes, {dtype, {}});
  copy_plain(out, x, "test");
  return out;
}
Tensor positions(const Dims& sizes, int64_t most, std::mt19937& random) {
  Tensor x = empty_plain(sizes, {DType::Int64, {}});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<int64_t>()[i] = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(most));
  return x;
}

Tensors copies_of(const Tensors& all) {
  Tensors out;
  for (const Tensor& each : all) {
    out.push_back(empty_plain(each.sizes(), {each.dtype(), {}}));
    copy_plain(out.back(), each, "test");
  }
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.numel()) * size_of(a.dtype());
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), bytes) == 0;
}

// What a plan of a function does beside the function itself, on the same numbers.
struct Check {
  Check(const Tensors& inputs, const Function& f, int64_t bytes = 1 << 12) {
    Tensors eager = copies_of(inputs), planned = copies_of(inputs);
    default_generator().manual_seed(5);
    Tensors expected = f(eager);
    for (Tensor& each : expected) each = contiguous(each);
    const Philox after = default_generator().state();
    Tensors example = copies_of(inputs);
    plan = Plan::make(captured(example, f), {.strip_bytes = bytes});
    Runner runner(plan);
    for (int run = 0; run < 2; ++run) {
      if (run == 1) planned = copies_of(inputs);
      default_generator().manual_seed(5);
      Tensors outputs;
      runner.run(planned, outputs);
      is_same = is_same && default_generator().state().offset == after.offset;
      for (size_t i = 0; i < expected.size(); ++i)
        is_same = is_same && same(expected[i], contiguous(outputs[i]));
      for (size_t i = 0; i < inputs.size(); ++i) is_same = is_same && same(eager[i], planned[i]);
    }
    text = to_string(plan->graph());
    for (const std::string& each : fused_of(*plan)) text += each + '\n';
  }
  size_t parts() const {
    size_t most = 0;
    for (const Strip& each : plan->strips()) most = std::max(most, each.parts.size());
    return most;
  }
  std::shared_ptr<const Plan> plan;
  bool is_same = true;
  std::string text;
};

Tensor last(const char* op, const Tensor& x, bool keepdim) {
  return plain(op, x, Dims{x.dim() - 1}, keepdim, kNothing);
}

// An op that goes row by row, by number.
Tensor row_op(int which, const Tensor& x) {
  const int64_t dim = x.dim() - 1;
  switch (which) {
    case 0: return softmax(x, dim);
    case 1: return plain("log_softmax", x, dim);
    case 2: return plain("softmax_grad_x", x, mul(x, 0.5), dim);
    case 3: return plain("log_softmax_grad_x", x, mul(x, 0.5), dim);
    case 4: return add(x, last("sum", x, true));
    case 5: return mul(x, last("mean", x, true));
    case 6: return add(x, plain("amax", x, Dims{dim}, true));
    case 7: return add(x, plain("amin", x, Dims{dim}, true));
    case 8: return mul(x, plain("var", x, Dims{dim}, 1.0, true));
    case 9: return mul(x, plain("std", x, Dims{dim}, 0.0, true));
    case 10: return add(x, plain("logsumexp", x, Dims{dim}, true));
    case 11: return add(x, last("nansum", x, true));
    case 12: {
      const BoxedValues both =
          call("max_dim", OpInfo::Form::Plain, {BoxedValue(x), BoxedValue(dim), BoxedValue(true)});
      return add(x, std::get<Tensor>(both[0]));
    }
    case 13: {
      const BoxedValues all = call("native_layer_norm", OpInfo::Form::Plain,
                                   {BoxedValue(x), BoxedValue(Dims{x.size(x.dim() - 1)}), kNothing,
                                    kNothing, BoxedValue(1e-5)});
      return std::get<Tensor>(all[0]);
    }
    default: return mul(x, dropout_mask(x));
  }
}
constexpr int kRowOps = 15;

}  // namespace

TEST_CASE("ops of rows between loops have the bits of ops by themselves", "[strip]") {
  std::mt19937 random(3);
  int strips = 0;
  for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16}) {
    for (int which = 0; which < kRowOps; ++which) {
      static const Dims kShapes[] = {{300, 17}, {4, 70, 33}, {3000, 3}, {4, 9001}};
      const Dims& sizes = kShapes[random() % 4];
      const int threads = 1 + static_cast<int>(random() % 2);
      set_num_threads(threads);
      const unsigned seed = random();
      const auto f = [&](Tensors& in) -> Tensors {
        Tensor x = exp(mul(in[0], 0.25));
        x = row_op(which, x);
        x = mul(add(x, in[1]), 0.5);
        if (seed % 2) x = row_op(static_cast<int>(seed / 2 % kRowOps), x);
        if (seed % 3 == 0) return {x, last("sum", mul(x, x), false)};
        return {add(x, 1.0)};
      };
      const Check check({drawn(sizes, dtype, random), drawn({sizes.back()}, dtype, random)}, f);
      INFO(moonlet::text(dtype) << " op " << which << " threads " << threads << '\n' << check.text);
      CHECK(check.is_same);
      strips += check.parts() > 1 ? 1 : 0;
    }
  }
  set_num_threads(1);
  CHECK(strips > 40);
}

TEST_CASE("sums of all elements go on from strip to strip", "[strip]") {
  std::mt19937 random(4);
  int folds = 0;
  for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16,
                            DType::Int64, DType::Int32, DType::Int8}) {
    for (const char* op : {"sum", "mean", "amax", "amin"}) {
      if (op == std::string("mean") && !is_floating(dtype)) continue;
      static const Dims kShapes[] = {{300001}, {1500, 256}, {2000, 300}, {8192 * 40}};
      const Dims& sizes = kShapes[random() % 4];
      set_num_threads(1 + static_cast<int>(random() % 2));
      const auto f = [&](Tensors& in) -> Tensors {
        const Tensor d = add(mul(in[0], in[0]), in[1]);
        Dims all;
        for (int i = 0; i < d.dim(); ++i) all.push_back(i);
        const bool ends = op[0] == 'a';
        const Tensor y = ends ? plain(op, d, all, false) : plain(op, d, all, false, kNothing);
        return {mul(y, y)};
      };
      const Check check({drawn(sizes, dtype, random), drawn({sizes.back()}, dtype, random)}, f,
                        1 << 17);
      INFO(op << ' ' << moonlet::text(dtype) << '\n' << check.text);
      CHECK(check.is_same);
      folds += check.parts() == 2 ? 1 : 0;
    }
  }
  set_num_threads(1);
  CHECK(folds > 10);
}

TEST_CASE("what lies between parts of a strip has memory for its rows only", "[strip]") {
  std::mt19937 random(5);
  const auto f = [](Tensors& in) -> Tensors { return {mul(softmax(mul(in[0], 3), 1), in[1])}; };
  const Check check(
      {drawn({1000, 50}, DType::Float32, random), drawn({50}, DType::Float32, random)}, f);
  CHECK(check.is_same);
  REQUIRE(check.plan->steps().size() == 1);
  CHECK(check.parts() == 3);
  CHECK(check.plan->arena_bytes() < 1000 * 50 * 4);
  const Strip& strip = check.plan->strips()[0];
  CHECK(fused_of(*check.plan) ==
        std::vector<std::string>{"(mul) softmax (mul), " + std::to_string(strip.step) +
                                 " of 1000 rows at once"});
}

TEST_CASE("rows are gathered into loops", "[strip]") {
  std::mt19937 random(6);
  const Tensor table = drawn({500, 6}, DType::Float32, random);
  const Tensor index = positions({2000}, 500, random);
  const auto f = [](Tensors& in) -> Tensors {
    return {exp(mul(index_select(in[0], 0, in[1]), 0.5))};
  };
  const Check check({table, index}, f);
  INFO(check.text);
  CHECK(check.is_same);
  CHECK(check.parts() == 2);
  const auto embedded = [](Tensors& in) -> Tensors {
    const Tensor rows = plain("embedding", in[0], in[1], int64_t{0}, false, false);
    return {softmax(mul(rows, 0.5), 2)};
  };
  const Check second({table, view(index, {20, 100})}, embedded);
  INFO(second.text);
  CHECK(second.is_same);
  CHECK(second.parts() == 3);
  // An index out of range is found, wherever it is, and its op is named.
  Tensor wrong = positions({2000}, 500, random);
  wrong.data<int64_t>()[1999] = 501;
  Runner runner(check.plan);
  Tensors outputs;
  CHECK(message_of([&] {
          runner.run(Tensors{table, wrong}, outputs);
        }).starts_with("index_select: "));
}

TEST_CASE("masks of dropout draw their numbers in order", "[strip]") {
  std::mt19937 random(7);
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16}) {
    for (const Dims& sizes : {Dims{301, 101}, Dims{30002}, Dims{7, 50, 90}}) {
      const auto f = [&](Tensors& in) -> Tensors {
        Tensor x = mul(exp(in[0]), dropout_mask(in[0]));
        x = softmax(x, x.dim() - 1);
        return {mul(x, dropout_mask(x)), mul(x, 2)};
      };
      const Check check({drawn(sizes, dtype, random)}, f);
      INFO(moonlet::text(dtype) << '\n' << check.text);
      CHECK(check.is_same);
      if (sizes.size() > 1) CHECK(check.parts() > 3);
    }
  }
}

TEST_CASE("what is read by other rows than it is written by is no strip", "[strip]") {
  std::mt19937 random(8);
  const Tensor x = drawn({70, 70}, DType::Float32, random);
  // Columns, sums over the first dimension, rows of another order, memory that is overwritten.
  const Function fs[] = {
      [](Tensors& in) -> Tensors { return {softmax(transpose(exp(in[0]), 0, 1), 1)}; },
      [](Tensors& in) -> Tensors { return {sum(exp(in[0]), {0})}; },
      [](Tensors& in) -> Tensors {
        const Tensor y = exp(in[0]);
        return {add(softmax(y, 1), select(y, 0, 69))};
      },
      [](Tensors& in) -> Tensors {
        const Tensor y = softmax(in[0], 1);
        Tensor to = in[0];
        mul_(to, 2);
        return {add(y, select(in[0], 0, 5))};
      },
      [](Tensors& in) -> Tensors {
        const Tensor all = sum(mul(in[0], in[0]));
        return {softmax(mul(in[0], all), 1)};
      },
  };
  for (const Function& f : fs) {
    const Check check({x}, f);
    INFO(check.text);
    CHECK(check.is_same);
  }
  CHECK(Check({x}, fs[0]).parts() == 0);
  CHECK(Check({x}, fs[1]).parts() == 0);
}

TEST_CASE("a strip stops when it is asked to, and runs again", "[strip]") {
  std::mt19937 random(9);
  const Tensor x = drawn({1000, 50}, DType::Float32, random);
  const auto f = [](Tensors& in) -> Tensors { return {mul(softmax(exp(in[0]), 1), 2)}; };
  const Check check({x}, f);
  REQUIRE(check.parts() == 3);
  Runner runner(check.plan);
  StopFlag* const before = execution.stop;
  StopFlag flag;
  execution.stop = &flag;
  Tensors outputs;
  flag.request("enough");
  CHECK_THROWS_AS(runner.run(Tensors{x}, outputs), Interrupted);
  runner.run(Tensors{x}, outputs);
  execution.stop = before;
  Tensors given{x};
  CHECK(same(outputs[0], f(given)[0]));
}

TEST_CASE("a plan says what was not fused, and why", "[strip]") {
  std::mt19937 random(10);
  const Tensor x = drawn({64, 64}, DType::Float32, random);
  const auto f = [](Tensors& in) -> Tensors {
    Tensor u = uniform_(in[1]);
    return {mm(mm(in[0], in[0]), u), sum(in[0], {0})};
  };
  const Check check({x, x}, f);
  CHECK(check.is_same);
  CHECK(apart_of(*check.plan) ==
        std::vector<std::string>{
            "uniform: draws random numbers", "mm x2: a product, by a kernel of its own",
            "sum: over other than the last dimensions, in an order that depends on all rows"});
}
