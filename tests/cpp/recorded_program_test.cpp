// tests/cpp/recorded_program_test.cpp: captured functions on the tape: their results and gradients
// are those of eager code to the last bit.
#include "tests/cpp/recorded_function.h"

using namespace moonlet;
using namespace moonlet::recorded;

TEST_CASE("a multilayer perceptron's gradients are those of eager code") {
  seed(1);
  const Tensor x = random({8, 5}), y = random({8, 3});
  const Tensor w1 = leaf({16, 5}, 0.3), b1 = leaf({16}), w2 = leaf({3, 16}, 0.3), b2 = leaf({3});
  const Function f = [=](const Tensors& in) {
    const Tensor hidden = relu(linear(in[0], w1, b1));
    return Tensors{mse_loss(linear(hidden, w2, b2), in[1])};
  };
  const auto program = check_as_eager(f, {x, y}, {w1, b1, w2, b2});
  // Nothing of the forward pass is kept twice, and what is given is not kept at all.
  CHECK(program->graphs().kept.size() <= 2);
  Tensors out;
  program->run(Tensors{x, y}, out);
  CHECK(grad_fn_name(out[0]) == "CompiledBackward");
}

TEST_CASE("inputs with a history pass gradients on") {
  seed(2);
  const Tensor w = leaf({4, 4}), v = leaf({4, 4});
  // v is used before the function, in its input, and inside of it.
  const auto whole = [=](const Function& f) {
    return [=](const Tensors& in) {
      const Tensor h = tanh(mm(in[0], v));
      return Tensors{f({h, mul(h, 2.0)})[0]};
    };
  };
  const Function f = [=](const Tensors& in) {
    return Tensors{sigmoid(add(mm(mm(in[0], w), v), in[1]))};
  };
  const Tensor x = random({3, 4});
  const Tensor h = tanh(mm(x, v));
  const auto program = record(f, {h, mul(h, 2.0)});
  check_same(outcome(whole(f), {x}, {w, v}, {}),
             outcome(whole(compiled(program)), {x}, {w, v}, {}));
}

TEST_CASE("a convolutional net with batch norm in training") {
  seed(3);
  const Tensor x = random({4, 3, 12, 12}), target = integers({1, 3, 2, 5}, {4});
  const Tensor w1 = leaf({6, 3, 3, 3}, 0.2), b1 = leaf({6}, 0.1), g = leaf({6}), b = leaf({6});
  const Tensor w2 = leaf({5, 6 * 5 * 5}, 0.1);
  const Tensor mean = zeros({6}), var = ones({6});
  const Function f = [=](const Tensors& in) {
    Tensor h = batch_norm(conv2d(in[0], w1, b1), mean, var, g, b, true);
    h = max_pool2d(relu(h), {2, 2});
    return Tensors{cross_entropy(linear(reshape(h, {4, -1}), w2), in[1])};
  };
  check_as_eager(f, {x, target}, {w1, b1, g, b, w2}, {mean, var});
}

TEST_CASE("layer norm and attention, with residuals") {
  seed(4);
  const Tensor x = leaf({2, 6, 8});
  const Tensor g = leaf({8}), b = leaf({8}), qkv = leaf({24, 8}, 0.3), out = leaf({8, 8}, 0.3);
  const Function f = [=](const Tensors& in) {
    const Tensor h = layer_norm(in[0], {8}, g, b);
    const auto parts = chunk(linear(h, qkv), 3, -1);
    const auto heads = [](const Tensor& t) { return transpose(reshape(t, {2, 6, 2, 4}), 1, 2); };
    const Tensor a = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]),
                                                  {}, 0, true);
    const Tensor y = linear(reshape(transpose(a, 1, 2), {2, 6, 8}), out);
    return Tensors{add(in[0], gelu(y, "tanh"))};
  };
  check_as_eager(f, {x}, {x, g, b, qkv, out});
}

TEST_CASE("an LSTM's cell, embeddings and losses") {
  seed(5);
  const Tensor words = leaf({10, 4}), ids = integers({3, 1, 10, 3}, {4});
  const Tensor w_ih = leaf({12, 4}, 0.5), w_hh = leaf({12, 3}, 0.5), b_ih = leaf({12});
  const Tensor h = random({4, 3}), c = random({4, 3});
  const Function f = [=](const Tensors& in) {
    const auto [h1, c1] =
        lstm_cell(embedding(words, in[0]), {in[1], in[2]}, w_ih, w_hh, b_ih, b_ih);
    return Tensors{h1, c1, smooth_l1_loss(h1, in[1]),
                   binary_cross_entropy_with_logits(c1, sigmoid(in[2]))};
  };
  check_as_eager(f, {ids, h, c}, {words, w_ih, w_hh, b_ih});
}

TEST_CASE("dropout draws the numbers of eager code") {
  seed(6);
  const Tensor w = leaf({6, 6});
  const Function f = [=](const Tensors& in) {
    return Tensors{dropout(tanh(mm(in[0], w)), 0.4, true)};
  };
  check_as_eager(f, {random({5, 6})}, {w});
}

TEST_CASE("no_grad, detach and changes in place inside") {
  seed(8);
  const Tensor w = leaf({4, 4}), count = zeros({4});
  const Function f = [=](const Tensors& in) {
    Tensor seen = count;
    Tensor h = mm(in[0], w);
    Tensor scale;
    {
      const NoGrad no_grad;
      scale = sum(mul(w, w));
      add_(seen, 1.0);
    }
    Tensor y = mul(h, scale);
    relu_(y);
    y = mul(y, 1.0);
    Tensor row = select(y, 0, 1);
    mul_(row, 3.0);
    return Tensors{mul(add(y, seen), detach(h))};
  };
  check_as_eager(f, {random({3, 4})}, {w}, {count});
}

TEST_CASE("results that share memory, with arguments and with one another") {
  seed(9);
  const Tensor w = leaf({4, 6}), x = leaf({3, 4});
  const Function f = [=](const Tensors& in) {
    const auto parts = chunk(mm(in[0], w), 3, 1);
    return Tensors{parts[0], parts[1], transpose(in[0], 0, 1), in[0], detach(in[0]), parts[0]};
  };
  const auto program = check_as_eager(f, {x}, {w, x});
  Tensors out;
  program->run(Tensors{x}, out);
  CHECK(out[3].is_same(x));
  CHECK(out[0].is_same(out[5]));
  CHECK(&out[2].storage() == &x.storage());
  CHECK(&out[0].storage() == &out[1].storage());
  CHECK_FALSE(out[4].requires_grad());
  CHECK(&out[4].storage() == &x.storage());
  // A recorded change of one view of them is one of all.
  const auto change = [&](const Function& g) {
    return [=](const Tensors& in) {
      Tensors parts = g(in);
      mul_(parts[0], 2.0);
      return Tensors{mul(parts[0], parts[0]), parts[1]};
    };
  };
  check_same(outcome(change(f), {x}, {w, x}, {}),
             outcome(change(compiled(program)), {x}, {w, x}, {}));
}

TEST_CASE("the same tensor as input twice") {
  seed(10);
  const Tensor x = leaf({3, 3});
  check_as_eager([](const Tensors& in) { return Tensors{mm(in[0], exp(in[1]))}; }, {x, x}, {x});
}

TEST_CASE("a gradient that is missing is not one of zeros") {
  const Tensor x = ones({3});
  Tensor w = zeros({3});
  set_requires_grad(w, true);
  // The gradient of sqrt at 0 is infinite, and 0 times that is not a number.
  const Function f = [=](const Tensors& in) { return Tensors{mul(in[0], w), sqrt(w), exp(w)}; };
  const auto program = record(f, {x});
  const auto only = [&](const Function& g, std::vector<int> which) {
    Tensors out = g({x});
    set_grad(w, Tensor());
    Tensors picked;
    for (const int i : which) picked.push_back(out[i]);
    backward(loss_of(picked));
    return clone(grad_of(w));
  };
  for (const auto& which : {std::vector<int>{0}, {1}, {0, 2}, {0, 1, 2}})
    CHECK(same(only(f, which), only(compiled(program), which)));
}

TEST_CASE("new memory that ops fill is the graph's own") {
  seed(19);
  const Tensor w = leaf({3, 4}), x = random({3, 4});
  // Each run's results are its own, and the gradient of as_strided is made of zeros.
  const Function f = [=](const Tensors& in) {
    Tensor filled = zeros({3, 4});
    add_(filled, in[0]);
    const Tensor noise = rand({3, 4});
    return Tensors{mul(filled, w), filled, as_strided(mul(w, w), {2, 3}, {3, 1}, 1),
                   mul(ones_like(in[0]), 2.0), mul(noise, w)};
  };
  const auto program = check_as_eager(f, {x}, {w});
  CHECK(program->graphs().parameters.size() == 1);
  Tensors first, second;
  program->run(Tensors{x}, first);
  program->run(Tensors{x}, second);
  CHECK(&first[1].storage() != &second[1].storage());
}
