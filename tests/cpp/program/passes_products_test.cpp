// tests/cpp/program/passes_products_test.cpp: passes that change the last bits, and so are only for
// who asks for them: batch norm in convolutions, biases in products, attention.
#include "tests/cpp/catch2.h"

#include "tensor/program/passes/passes.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

// The largest difference between what the graph of f gives before and after the passes; the text of
// the graph after them.
struct Changed {
  double difference = 0;
  std::string text;
};
Changed changed(const Tensors& inputs, const PassOptions& options, const Function& f) {
  Graph graph = captured(inputs, f);
  const Tensors before = interpret_raw(graph, inputs);
  run_passes(graph, options);
  const Tensors after = interpret_raw(graph, inputs);
  Changed out{0, to_string(graph)};
  for (size_t i = 0; i < before.size(); ++i) {
    REQUIRE(before[i].sizes() == after[i].sizes());
    REQUIRE(before[i].strides() == after[i].strides());
    for (int64_t k = 0; k < before[i].numel(); ++k)
      out.difference = std::max(out.difference, std::abs(before[i].elements<double>()[k] -
                                                         after[i].elements<double>()[k]));
  }
  return out;
}

Tensor doubles(const Dims& sizes, double first) { return numbers(sizes, first, DType::Float64); }

// Batch norm in evaluation, as the op of that name is made of others.
struct Norm {
  Tensor mean, var, weight, bias;
  explicit Norm(int64_t channels)
      : mean(doubles({channels}, 1)),
        var(program::of({channels}, {0.5, 1.5, 2.5}, DType::Float64)),
        weight(doubles({channels}, 2)),
        bias(doubles({channels}, 3)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor scale = mul(rsqrt(add(var, 1e-5)), weight);
    const Tensor shift = add(neg(mul(mean, scale)), bias);
    if (x.dim() == 2) return addcmul(shift, x, scale);
    const Dims channels{var.size(0), 1, 1};
    return addcmul(view(shift, channels), x, view(scale, channels));
  }
};

PassOptions folding() {
  PassOptions out;
  out.parameters_constant = out.fold = true;
  return out;
}

}  // namespace

TEST_CASE("batch norm in evaluation becomes part of a convolution and of a linear layer") {
  const Tensor w = doubles({4, 1, 3, 3}, 1), v = doubles({6, 4, 1, 1}, 2), b = doubles({6}, 4);
  const Tensor l = doubles({5, 6}, 2), none;
  const Norm first(4), second(6), third(5);
  const Changed out = changed({doubles({2, 2, 5, 5}, 1)}, folding(), [&](Tensors& in) -> Tensors {
    const Tensor x = relu(first(conv(in[0], w, none, 1, 2)));
    const Tensor y = second(conv(x, v, b, 0));
    return {y, third(linear(sum(y, {2, 3}), l, none))};
  });
  CHECK(out.difference < 1e-12);
  CHECK(out.difference > 0);
  CHECK_THAT(out.text, !ContainsSubstring("addcmul"));
  CHECK_THAT(out.text, !ContainsSubstring("rsqrt"));
}

TEST_CASE("batch norm stays where it is not asked to go or something else reads what it takes") {
  const Tensor w = doubles({4, 2, 3, 3}, 1), none;
  const Norm norm(4);
  const Tensors inputs = {doubles({2, 2, 5, 5}, 1)};
  PassOptions options = folding();
  const Function read_twice = [&](Tensors& in) -> Tensors {
    const Tensor x = conv(in[0], w, none, 1);
    return {mul(norm(x), x)};
  };
  CHECK_THAT(changed(inputs, options, read_twice).text, ContainsSubstring("addcmul"));
  CHECK(changed(inputs, options, read_twice).difference == 0);
  const Function plain = [&](Tensors& in) -> Tensors { return {norm(conv(in[0], w, none, 1))}; };
  options.fold = false;
  CHECK_THAT(changed(inputs, options, plain).text, ContainsSubstring("addcmul"));
  CHECK(changed(inputs, options, plain).difference == 0);
  options = folding();
  options.parameters_constant = false;
  CHECK_THAT(changed(inputs, options, plain).text, ContainsSubstring("addcmul"));
  // Statistics that the graph writes are no constants.
  const Function moving = [&](Tensors& in) -> Tensors {
    const Tensor y = norm(conv(in[0], w, none, 1));
    Tensor mean = norm.mean;
    mul_(mean, 0.5);
    return {y};
  };
  Graph graph = captured(inputs, moving);
  run_passes(graph, folding());
  CHECK_THAT(to_string(graph), ContainsSubstring("addcmul"));
}

TEST_CASE("a bias that is added becomes part of the product, where bits may change") {
  const Tensor w = doubles({5, 3}, 1), b = doubles({5}, 2), m = doubles({3, 5}, 3);
  const Tensor k = doubles({4, 2, 3, 3}, 1), c = doubles({4}, 2), none;
  const Function f = [&](Tensors& in) -> Tensors {
    return {add(linear(in[0], w, none), b), add(b, mm(in[0], m)),
            add(conv(in[1], k, none, 1), view(c, {4, 1, 1}))};
  };
  const Tensors inputs = {doubles({4, 3}, 1), doubles({2, 2, 5, 5}, 4)};
  PassOptions options;
  CHECK(changed(inputs, options, f).difference == 0);
  CHECK_THAT(changed(inputs, options, f).text, ContainsSubstring(" add("));
  options.same_bits = false;
  const Changed out = changed(inputs, options, f);
  CHECK(out.difference < 1e-13);
  CHECK_THAT(out.text, !ContainsSubstring(" add("));
  CHECK_THAT(out.text, ContainsSubstring("addmm("));
  // What the product gives is read elsewhere; the input of the product changes in between.
  const auto stays = [&](const Function& g) {
    CHECK_THAT(changed({doubles({4, 3}, 1)}, options, g).text, ContainsSubstring(" add("));
  };
  stays([&](Tensors& in) -> Tensors {
    const Tensor y = linear(in[0], w, none);
    return {add(y, b), neg(y)};
  });
  stays([&](Tensors& in) -> Tensors {
    Tensor x = in[0];
    const Tensor y = linear(x, w, none);
    fill_(x, 1.0);
    return {add(y, b)};
  });
}

TEST_CASE("attention that is written out becomes one op, where bits may change") {
  const Tensors inputs = {doubles({2, 4, 3}, 1), doubles({2, 6, 3}, 2), doubles({2, 6, 5}, 3)};
  const auto attention = [](bool divides) -> Function {
    return [divides](Tensors& in) -> Tensors {
      const Tensor scores = bmm(in[0], transpose(in[1], 1, 2));
      const Tensor scaled = divides ? div(scores, 1.7) : mul(scores, 0.6);
      return {bmm(softmax(scaled, 2), in[2])};
    };
  };
  PassOptions options;
  CHECK(changed(inputs, options, attention(true)).difference == 0);
  CHECK_THAT(changed(inputs, options, attention(true)).text, ContainsSubstring("softmax("));
  options.same_bits = false;
  for (const bool divides : {false, true}) {
    const Changed out = changed(inputs, options, attention(divides));
    CHECK(out.difference < 1e-13);
    CHECK_THAT(out.text, ContainsSubstring("flash_attention(%0, %1, %2, nil, false, "));
    CHECK_THAT(out.text, !ContainsSubstring("softmax("));
  }
  // The weights are an output; the softmax is over the queries; the keys change in between.
  const auto stays = [&](const Function& f) {
    CHECK_THAT(changed(inputs, options, f).text, ContainsSubstring("softmax("));
  };
  stays([](Tensors& in) -> Tensors {
    const Tensor weights = softmax(bmm(in[0], transpose(in[1], 1, 2)), 2);
    return {bmm(weights, in[2]), weights};
  });
  stays([](Tensors& in) -> Tensors {
    return {bmm(softmax(bmm(in[0], transpose(in[1], 1, 2)), 1), in[2])};
  });
  stays([](Tensors& in) -> Tensors {
    const Tensor weights = softmax(bmm(in[0], transpose(in[1], 1, 2)), 2);
    mul_(in[1], 1.0);
    return {bmm(weights, in[2])};
  });
}
