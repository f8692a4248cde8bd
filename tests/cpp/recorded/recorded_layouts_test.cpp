// tests/cpp/recorded/recorded_layouts_test.cpp: backward passes from gradients that lie otherwise
// in memory than the results that they belong to, and from other results than when captured.
#include "tests/cpp/recorded/recorded_function.h"

using namespace moonlet;
using namespace moonlet::recorded;

namespace {

constexpr int64_t kRows = 37, kColumns = 19;

// Gradients of one result, kRows x kColumns, which ops go through in different orders.
Tensors layouts() {
  const Tensor g = random({kRows, kColumns});
  const Tensor wide = random({kRows, kColumns + 5}), row = random({1, kColumns});
  Tensors out{g, detach(t(contiguous(t(g)))), detach(expand(random({1, 1}), {kRows, kColumns})),
              detach(expand(row, {kRows, kColumns})), detach(narrow(wide, 1, 2, kColumns))};
  return out;
}

Function biased(const Tensor& w, const Tensor& b) {
  return [=](const Tensors& in) { return Tensors{add(mul(in[0], w), b)}; };
}

// The gradients of the leaves for `g` as that of the first result.
Tensors gradients(const Function& f, const Tensors& inputs, const Tensors& leaves,
                  const Tensor& g) {
  return grad({f(inputs)[0]}, leaves, {g});
}

void check_gradients(const Tensors& expected, const Tensors& found) {
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("leaf " << i);
    CHECK(same(expected[i], found[i]));
    CHECK(expected[i].strides() == found[i].strides());
  }
}

}  // namespace

TEST_CASE("gradients of other strides than the result's are summed in the order of eager code") {
  seed(31);
  const Tensor w = leaf({kColumns}), b = leaf({kColumns}), x = leaf({kRows, kColumns});
  const Function f = biased(w, b);
  const auto program = record(f, {x});
  const Tensors given = layouts();
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < given.size(); ++i) {
      INFO("layout " << i);
      check_gradients(gradients(f, {x}, {w, b, x}, given[i]),
                      gradients(compiled(program), {x}, {w, b, x}, given[i]));
    }
  CHECK(program->pass_count() == given.size());
  // Strides of dims of one element do not count.
  const Tensor one = leaf({1, kColumns}), column = detach(t(random({kColumns, 1})));
  const auto single = record(f, {one});
  check_gradients(gradients(f, {one}, {w, b}, column),
                  gradients(compiled(single), {one}, {w, b}, column));
  CHECK(single->pass_count() == 1);
}

TEST_CASE("strides that come once too often are answered op by op") {
  seed(32);
  const Tensor w = leaf({kColumns}), b = leaf({kColumns}), x = leaf({kRows, kColumns});
  const Function f = biased(w, b);
  const auto program = record(f, {x});
  for (int64_t pad = 0; pad < 14; ++pad) {
    const Tensor g = detach(narrow(random({kRows, kColumns + pad}), 1, 0, kColumns));
    check_gradients(gradients(f, {x}, {w, b, x}, g),
                    gradients(compiled(program), {x}, {w, b, x}, g));
  }
  CHECK(program->pass_count() == 9);
}

TEST_CASE("gradients of some results of many") {
  seed(33);
  const Tensor w = leaf({4}), x = leaf({3, 4});
  const Function f = [=](const Tensors& in) {
    const Tensor y = mul(in[0], w);
    return Tensors{exp(y), tanh(y), mul(y, y)};
  };
  const auto program = record(f, {x});
  const size_t captured = program->pass_count();
  const auto two = [&](const Function& g) {
    const Tensors out = g({x});
    return grad({sum(out[0]), mean(out[2])}, {w, x}, {});
  };
  for (int round = 0; round < 2; ++round) check_gradients(two(f), two(compiled(program)));
  CHECK(program->pass_count() == captured + 1);
}

TEST_CASE("other strides where the function cannot run again") {
  seed(34);
  const Tensor x = leaf({kRows, kColumns});
  const Tensor g = detach(t(random({kColumns, kRows})));
  SECTION("as it changes a leaf") {
    const Tensor w = leaf({kColumns}), start = clone(detach(w));
    const Function f = [=](const Tensors& in) {
      {
        const NoGrad no_grad;
        Tensor same_leaf = w;
        mul_(same_leaf, 0.5);
      }
      return Tensors{mul(in[0], w)};
    };
    const auto reset = [&] {
      const NoGrad no_grad;
      Tensor same_leaf = w;
      copy_(same_leaf, start);
    };
    const Tensors expected = gradients(f, {x}, {w, x}, g);
    reset();
    const auto program = record(f, {x});
    for (int round = 0; round < 2; ++round) {
      reset();
      check_gradients(expected, gradients(compiled(program), {x}, {w, x}, g));
    }
    CHECK(program->pass_count() == 2);
  }
  SECTION("as an argument that its gradients do not read was changed since") {
    const Tensor b = leaf({kColumns}), c = random({kRows, kColumns});
    const Function f = [=](const Tensors& in) { return Tensors{add(add(in[0], b), in[1])}; };
    const auto program = record(f, {x, c});
    const auto run = [&](const Function& of) {
      Tensor other = clone(c);
      const Tensors out = of({x, other});
      add_(other, 1.0);
      return grad({out[0]}, {x, b}, {g});
    };
    for (int round = 0; round < 2; ++round) check_gradients(run(f), run(compiled(program)));
    CHECK(program->pass_count() == 2);
  }
}

TEST_CASE("random numbers are drawn once where a pass is made later") {
  seed(35);
  const Tensor w = leaf({kColumns}), x = leaf({kRows, kColumns});
  const Function f = [=](const Tensors& in) { return Tensors{dropout(mul(in[0], w), 0.3, true)}; };
  const auto program = record(f, {x});
  const Tensor g = detach(expand(random({1, 1}), {kRows, kColumns}));
  const auto run = [&](const Function& of) {
    seed(36);
    Tensors out = gradients(of, {x}, {w, x}, g);
    out.push_back(random({4}));
    return out;
  };
  for (int round = 0; round < 2; ++round) check_gradients(run(f), run(compiled(program)));
  CHECK(program->pass_count() == 2);
}
