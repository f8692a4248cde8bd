// tests/cpp/recorded/recorded_random_test.cpp: captured functions drawn at random: views, changes
// in place, parts without gradients, buffers, noise, and results that share memory. What runs
// eagerly is the same recorded, to the last bit, second derivatives too, or is refused.
#include "tests/cpp/recorded/recorded_function.h"

#include <random>

using namespace moonlet;
using namespace moonlet::recorded;

namespace {

// A function of a 4 x 4 input, two leaves and a buffer, the same at each call.
class RandomFunction {
 public:
  RandomFunction(unsigned number, Tensors leaves, Tensor buffer)
      : number_(number), leaves_(std::move(leaves)), buffer_(std::move(buffer)) {}

  Tensors operator()(const Tensors& in) {
    random_.seed(number_);
    pool_ = {in[0], leaves_[0], leaves_[1], tanh(mul(leaves_[0], 0.5))};
    const int steps = 3 + draw(8);
    for (int i = 0; i < steps; ++i) step();
    Tensors out;
    for (int i = 1 + draw(3); i > 0; --i) out.push_back(result());
    out.push_back(mul(pool_.back(), leaves_[1]));
    pool_.clear();
    return out;
  }

 private:
  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  const Tensor& any() { return pool_[draw(static_cast<int>(pool_.size()))]; }
  // One that may be changed in place while recording.
  Tensor own() {
    const Tensor& last = pool_.back();
    bool leaf = draw(2) == 0;
    for (const Tensor& each : {pool_[0], leaves_[0], leaves_[1]})
      leaf = leaf || (each.requires_grad() && &each.storage() == &last.storage());
    return leaf ? mul(any(), 1.5) : last;
  }
  Tensor part(const Tensor& t) {
    switch (draw(5)) {
      case 0: return select(t, draw(2), draw(4));
      case 1: return slice(t, draw(2), 1, 3);
      case 2: return transpose(t, 0, 1);
      case 3: return reshape(t, {2, 8});
      default: return t;
    }
  }
  Tensor result() {
    const Tensor& t = any();
    switch (draw(5)) {
      case 0: return detach(t);
      case 1:
      case 2: return part(t);
      default: return t;
    }
  }
  void change(Tensor t) {
    Tensor to = part(t);
    switch (draw(5)) {
      case 0: mul_(to, 0.5); break;
      case 1: add_(to, mean(any())); break;
      case 2: relu_(to); break;
      case 3: fill_(to, 0.25); break;
      default: mul_(to, detach(mean(any()))); break;
    }
    pool_.push_back(std::move(t));
  }
  void step() {
    switch (draw(14)) {
      case 0: pool_.push_back(add(any(), any())); break;
      case 1: pool_.push_back(mul(any(), any())); break;
      case 2: pool_.push_back(tanh(mm(any(), any()))); break;
      case 3: pool_.push_back(sigmoid(any())); break;
      case 4: pool_.push_back(softmax(any(), 1)); break;
      case 5: pool_.push_back(add(any(), sum(any(), {draw(2)}, true))); break;
      case 6: pool_.push_back(mul(any(), detach(any()))); break;
      case 7: pool_.push_back(transpose(any(), 0, 1)); break;
      case 8: change(own()); break;
      case 9: change(own()); break;
      case 10: {
        const NoGrad no_grad;
        mul_(buffer_, 0.5);
        add_(buffer_, mean(any()));
        pool_.push_back(exp(mul(any(), 0.1)));
        break;
      }
      case 11: pool_.push_back(add(any(), buffer_)); break;
      case 12: pool_.push_back(dropout(any(), 0.3, true)); break;
      default: {
        Tensor made = zeros({4, 4}, {DType::Float64, {}});
        Tensor row = select(made, 0, draw(4));
        copy_(row, select(any(), 0, 1));
        pool_.push_back(made);
        break;
      }
    }
  }

  const unsigned number_;
  const Tensors leaves_;
  Tensor buffer_;
  std::mt19937 random_;
  Tensors pool_;
};

bool number_has_leaf(unsigned number) { return number % 3 == 0; }

}  // namespace

TEST_CASE("random functions are as eager ones") {
  int same_ones = 0, refused = 0, second = 0;
  for (unsigned number = 1; number <= 400; ++number) {
    INFO("function " << number);
    seed(number);
    const auto d = DType::Float64;
    const Tensors leaves{leaf({4, 4}, 0.5, d), leaf({4, 4}, 0.5, d)};
    Tensor buffer = random({4, 4}, 1, d);
    const Tensor x = number_has_leaf(number) ? leaf({4, 4}, 1, d) : random({4, 4}, 1, d);
    Tensors all = leaves, inputs{x};
    if (x.requires_grad()) all.push_back(x);
    const auto f = std::make_shared<RandomFunction>(number, leaves, buffer);
    const Function call = [f](const Tensors& in) { return (*f)(in); };
    Outcome eager;
    // What is given without a gradient may be changed too.
    Tensors buffers{buffer};
    if (!x.requires_grad()) buffers.push_back(x);
    Tensors before;
    for (const Tensor& t : buffers) before.push_back(clone(t));
    const auto reset = [&] {
      const NoGrad no_grad;
      for (size_t i = 0; i < buffers.size(); ++i) copy_(buffers[i], before[i]);
      if (!number_has_leaf(number)) detach_(inputs[0]);  // f may have given it a history
    };
    const std::string error = message_of([&] { eager = outcome(call, inputs, all, buffers); });
    reset();
    std::string reason;
    seed(7);
    const auto program = try_record(call, inputs, reason);
    reset();
    if (!program) {
      ++refused;
      continue;
    }
    REQUIRE(error == "");
    for (int round = 0; round < 2; ++round)
      check_same(eager, outcome(compiled(program), inputs, all, buffers));
    ++same_ones;
    if (number % 4 != 0) continue;
    Tensors a, b;
    const std::string no_second = message_of([&] { a = second_gradients(call, inputs, all); });
    reset();
    const std::string none =
        message_of([&] { b = second_gradients(compiled(program), inputs, all); });
    reset();
    REQUIRE((no_second == "") == (none == ""));
    for (size_t i = 0; i < a.size() && none == ""; ++i) {
      REQUIRE(a[i].defined() == b[i].defined());
      if (a[i].defined()) check_close(a[i], b[i]);
    }
    second += none == "" ? 1 : 0;
  }
  CAPTURE(same_ones, refused, second);
  CHECK(same_ones > 300);
  CHECK(second > 50);
}
