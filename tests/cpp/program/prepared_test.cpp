// tests/cpp/program/prepared_test.cpp: weights that a runner keeps in the layout that a library
// wants: made once, again after they have changed, and the same bits.
#include "tests/cpp/catch2.h"

#include "moonlet_config.h"
#include "tensor/cpu/common/prepared_operands.h"
#include "tensor/program/plan.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

Tensor conv2d(const Tensor& x, const Tensor& weight) { return conv(x, weight, Tensor(), 1, 1); }

Tensor run_once(Runner& runner, const Tensor& x) {
  std::vector<Tensor> out;
  runner.run(std::vector<Tensor>{x}, out);
  return out.at(0);
}

// A convolution with a parameter, and the plan of it.
struct Convolution {
  Tensor x = numbers({1, 16, 12, 12}), weight = numbers({32, 16, 3, 3}, 2);
  std::shared_ptr<const Plan> plan =
      Plan::make(captured({x}, [&](Tensors& in) -> Tensors { return {conv2d(in[0], weight)}; }));
};

}  // namespace

TEST_CASE("a weight is prepared once, and again when it has changed") {
  Convolution c;
  Runner keeps(c.plan, true), plain_one(c.plan);
  for (int i = 0; i < 3; ++i) {
    const Tensor want = conv2d(c.x, c.weight);
    CHECK((bits(run_once(keeps, c.x)) == bits(want)));
    CHECK((bits(run_once(plain_one, c.x)) == bits(want)));
  }
  const int64_t made = keeps.prepared_operands().made();
  CHECK(made <= 1);
  CHECK(plain_one.prepared_operands().made() == 0);
#if MOONLET_ONEDNN && defined(__x86_64__)
  // Its convolutions for other processors may take weights as they are.
  CHECK(made == 1);
#endif
  mul_(c.weight, 1.5);
  CHECK((bits(run_once(keeps, c.x)) == bits(conv2d(c.x, c.weight))));
  CHECK(keeps.prepared_operands().made() == 2 * made);
  CHECK((bits(run_once(keeps, c.x)) == bits(conv2d(c.x, c.weight))));
  CHECK(keeps.prepared_operands().made() == 2 * made);
}

TEST_CASE("the panels of a product's weight are packed once") {
  // Rows shared among threads, and columns; parts of panels; several depths.
  for (const Dims& sizes : {Dims{64, 300, 40}, Dims{17, 520, 96}, Dims{32, 64, 129}}) {
    Tensor x = numbers({sizes[0], sizes[1]}), weight = numbers({sizes[2], sizes[1]}, 2);
    const Tensor bias = numbers({sizes[2]}, 3);
    const auto plan = Plan::make(
        captured({x}, [&](Tensors& in) -> Tensors { return {linear(in[0], weight, bias)}; }));
    Runner keeps(plan, true);
    for (int i = 0; i < 3; ++i) CHECK((bits(run_once(keeps, x)) == bits(linear(x, weight, bias))));
    const int64_t made = keeps.prepared_operands().made();
    CHECK(made <= 1);
    mul_(weight, -0.5);
    CHECK((bits(run_once(keeps, x)) == bits(linear(x, weight, bias))));
    CHECK(keeps.prepared_operands().made() == 2 * made);
  }
}

TEST_CASE("calls that are no program's prepare nothing") {
  Convolution c;
  Runner keeps(c.plan, true);
  run_once(keeps, c.x);
  CHECK(cpu::prepared_operands == nullptr);
}

TEST_CASE("what is prepared belongs to an operand and a layout") {
  cpu::PreparedOperands all;
  Tensor a = numbers({8}), b = numbers({8}, 2);
  const auto layout = std::make_shared<int>(0), other = std::make_shared<int>(1);
  int calls = 0;
  const auto make = [&](Tensor& to) { to.raw()[0] = static_cast<char>(++calls); };
  CHECK(all.get(a.raw(), {{}, layout}, 4, make) == nullptr);
  all.allow(a.storage());
  const Tensor* const first = all.get(a.raw(), {{}, layout}, 4, make);
  REQUIRE(first != nullptr);
  CHECK(all.get(a.raw(), {{}, layout}, 4, make) == first);
  CHECK(all.get(b.raw(), {{}, layout}, 4, make) == nullptr);
  CHECK(all.get(a.raw(), {{}, other}, 4, make) != first);
  CHECK(all.get(a.raw(), {{8, 1}, layout}, 4, make) != first);
  CHECK(calls == 3);
  a.storage().bump_version();
  CHECK(all.get(a.raw(), {{}, layout}, 4, make)->raw()[0] == 4);
  CHECK(all.get(a.raw(), {{}, std::make_shared<int>(2)}, cpu::PreparedOperands::kMostBytes, make) ==
        nullptr);
}
