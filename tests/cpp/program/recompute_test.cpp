// tests/cpp/program/recompute_test.cpp: saved values that the backward graph computes again: fewer
// of them, and the same bits.
#include "tests/cpp/catch2.h"

#include "tensor/program/passes/recompute.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

// A forward graph that gives its result and then what it saves, and the backward graph, which takes
// that and then the gradient of the result.
struct Pair {
  Graph forward, backward;
  std::vector<SavedValue> saved;

  Pair(const Tensors& inputs, const Function& f, const Function& b) {
    Tensors gave;
    forward = captured(inputs, f, &gave);
    Tensors takes(gave.begin() + 1, gave.end());
    for (int i = 0; i < static_cast<int>(takes.size()); ++i) saved.push_back({i + 1, i});
    takes.push_back(numbers(gave[0].sizes(), 2));
    backward = captured(takes, b);
  }

  // The result and the gradients.
  std::vector<std::string> run(const Tensors& inputs, const Tensor& gradient) const {
    Copies copies;
    const Tensors out = interpret_raw(forward, copies(inputs));
    Tensors takes(backward.inputs.size());
    for (const SavedValue& each : saved) takes[each.input] = out[each.output];
    takes.back() = gradient;
    std::vector<std::string> all = {bits(out[0])};
    for (const Tensor& each : interpret_raw(backward, takes)) all.push_back(bits(each));
    return all;
  }
};

const Tensors kInputs = {numbers({4, 3}), numbers({3, 5}, 2)};

// How many of the saved values stay; the same bits are checked.
size_t left(const Function& f, const Function& b, std::string* text = nullptr) {
  Pair pair(kInputs, f, b);
  const Tensor gradient = numbers({4, 5}, 4);
  const std::vector<std::string> before = pair.run(kInputs, gradient);
  const size_t count = pair.saved.size();
  const bool any = recompute(pair.forward, pair.backward, pair.saved);
  CHECK(any == (pair.saved.size() < count));
  CHECK(pair.forward.outputs.size() == 1 + pair.saved.size());
  CHECK(pair.backward.inputs.size() == pair.saved.size() + 1);
  CHECK(pair.run(kInputs, gradient) == before);
  if (text != nullptr) *text = to_string(pair.backward);
  return pair.saved.size();
}

}  // namespace

TEST_CASE("chains of pointwise ops are computed again from the product that is saved") {
  std::string text;
  CHECK(left(
            [](Tensors& in) -> Tensors {
              const Tensor h = mm(in[0], in[1]), r = relu(h), e = exp(r);
              return {mul(e, r), e, h, r};
            },
            [](Tensors& in) -> Tensors {
              const Tensor first = mul(in[3], in[0]);
              return {add(first, in[2]), mul(in[1], first)};
            },
            &text) == 1);
  CHECK(text == R"(input %1 : float32 (4, 5)
input %3 : float32 (4, 5)
%2 = relu(%1) : float32 (4, 5)
%0 = exp(%2) : float32 (4, 5)
%4 = mul(%3, %0) : float32 (4, 5)
%5 = add(%4, %2) : float32 (4, 5)
%6 = mul(%1, %4) : float32 (4, 5)
return %5, %6
)");
}

TEST_CASE("saved values stay that cannot be computed again") {
  const Function sum_of_three = [](Tensors& in) -> Tensors {
    return {mul(add(in[0], in[1]), in[2])};
  };
  // What they are made of is not saved; is written since; they are outputs for another reason; they
  // are drawn.
  CHECK(left(
            [](Tensors& in) -> Tensors {
              const Tensor h = mm(in[0], in[1]), e = exp(h), n = neg(exp(neg(h)));
              return {add(e, n), e, n};
            },
            sum_of_three) == 2);
  CHECK(left(
            [](Tensors& in) -> Tensors {
              Tensor h = mm(in[0], in[1]);
              const Tensor e = exp(h);
              mul_(h, 2.0);
              return {add(e, h), h, e};
            },
            sum_of_three) == 2);
  CHECK(left(
            [](Tensors& in) -> Tensors {
              const Tensor h = mm(in[0], in[1]), e = exp(h);
              return {e, h, e};
            },
            sum_of_three) == 2);
  default_generator().manual_seed(3);
  const auto drawn = [](Tensors& in) -> Tensors {
    default_generator().manual_seed(3);
    const Tensor h = mm(in[0], in[1]), mask = dropout_mask(h);
    return {mul(h, mask), h, mask};
  };
  Pair pair(kInputs, drawn, sum_of_three);
  CHECK_FALSE(recompute(pair.forward, pair.backward, pair.saved));
}

TEST_CASE("a saved value that the backward graph writes stays") {
  CHECK(left(
            [](Tensors& in) -> Tensors {
              const Tensor h = mm(in[0], in[1]), e = exp(h);
              return {neg(e), h, e};
            },
            [](Tensors& in) -> Tensors {
              mul_(in[0], 2.0);
              return {mul(add(in[0], in[1]), in[2])};
            }) == 2);
}
