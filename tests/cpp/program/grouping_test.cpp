// tests/cpp/program/grouping_test.cpp: which nodes run together as a loop, on printed groups; what
// memory that is shared forbids; random programs of views, writes in place and products; threads,
// stops and errors inside loops.
#include "tests/cpp/catch2.h"

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "autograd/ops_activation.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_linalg.h"
#include "autograd/ops_math.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "autograd/ops_softmax.h"
#include "autograd/ops_special.h"
#include "tensor/program/runner.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/threads.h"
#include "tests/cpp/messages.h"
#include "tests/cpp/program/fusion_harness.h"

using namespace moonlet;
using namespace moonlet::fusion_test;

namespace {

Tensor numbers(const Dims& sizes, DType dtype = DType::Float32) {
  std::mt19937 random(11);
  return fresh(sizes, dtype, random);
}

// The names of each group's nodes, a line each, after a check of the bits.
std::string groups_of(const Tensors& inputs, const Function& f) {
  const Outcome outcome = check_bits(inputs, f);
  INFO(outcome.text);
  CHECK(outcome.same);
  Tensors outputs;
  const Tensors given = copies(inputs);
  const program::Graph graph = graph_of(f, given, outputs);
  std::string out;
  for (const program::Group& group : program::group(graph)) {
    for (const int32_t node : group.nodes)
      out += std::string(graph.nodes[node].op->name) + (node == group.nodes.back() ? "\n" : " ");
    if (group.loop) CHECK(group.loop->loads.size() + group.loop->stores.size() <= 16);
  }
  return out;
}

// What the one loop of a function is as text.
std::string loop_of(const Tensors& inputs, const Function& f) {
  Tensors outputs;
  const Tensors given = copies(inputs);
  const program::Graph graph = graph_of(f, given, outputs);
  for (const program::Group& group : program::group(graph))
    if (group.loop) return to_string(*group.loop);
  return "";
}

}  // namespace

TEST_CASE("a chain is one loop that stores its result alone", "[grouping]") {
  const auto f = [](const Tensors& in) -> Tensors { return {add(mul(exp(in[0]), 2), in[1])}; };
  CHECK(groups_of({numbers({3, 4}), numbers({3, 4})}, f) == "exp mul add\n");
  CHECK(loop_of({numbers({3, 4}), numbers({4})}, f) ==
        "loop (4, 3)\n"
        "x0 = load 0 : float32 (4, 16)\n"
        "x1 = load 1 : float32 (4, 0)\n"
        "t0 = exp(x0) : float32\n"
        "t1 = mul(t0, 2) : float32\n"
        "t2 = add(t1, x1) : float32\n"
        "store t2 to 2 : float32 (4, 16)\n");
}

TEST_CASE("branches of a sum join", "[grouping]") {
  CHECK(groups_of({numbers({64}), numbers({64})}, [](const Tensors& in) -> Tensors {
          const Tensor a = exp(in[0]), b = sin(in[1]);
          return {add(a, b)};
        }) == "exp sin add\n");
}

TEST_CASE("float16 results are rounded between ops", "[grouping]") {
  CHECK(groups_of({numbers({100}, DType::Float16)}, [](const Tensors& in) -> Tensors {
          return {to(add(mul(in[0], 1.1), 0.3), DType::Float32)};
        }) == "mul add convert\n");
}

TEST_CASE("nodes go past a product where nothing is in the way", "[grouping]") {
  const Tensors inputs = {numbers({8, 8}), numbers({8, 8})};
  // The sum goes before the product, or the scaling behind it.
  CHECK(groups_of(inputs, [](const Tensors& in) -> Tensors {
          const Tensor a = mul(in[0], 2), b = mm(in[1], in[1]);
          return {add(a, 1), b};
        }) == "mul add\nmm\n");
  CHECK(groups_of(inputs, [](const Tensors& in) -> Tensors {
          const Tensor a = mul(in[0], 2), b = mm(in[1], in[1]);
          return {add(a, b)};
        }) == "mm\nmul add\n");
  // The product reads what is scaled, and the sum the product.
  CHECK(groups_of(inputs, [](const Tensors& in) -> Tensors {
          const Tensor a = mul(in[0], 2), b = mm(a, in[1]);
          return {add(a, b)};
        }) == "mul\nmm\nadd\n");
}

TEST_CASE("a product that reads what is then changed in place stays before", "[grouping]") {
  CHECK(groups_of({numbers({8, 8})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          const Tensor a = mul(x, 2), b = mm(x, x);
          add_(x, a);
          return {b};
        }) == "mm\nmul add\n");
}

TEST_CASE("changes in place join at the same elements", "[grouping]") {
  CHECK(groups_of({numbers({50}), numbers({50})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          const Tensor before = mul(x, 3);
          add_(x, in[1]);
          mul_(x, 2);
          return {add(before, x)};
        }) == "mul add mul add\n");
  CHECK(loop_of({numbers({50})},
                [](const Tensors& in) -> Tensors {
                  Tensor x = in[0];
                  add_(x, 1);
                  mul_(x, 2);
                  return {};
                }) ==
        "loop (50,)\n"
        "x0 = load 0 : float32 (4,)\n"
        "t0 = add(x0, 1) : float32\n"
        "t1 = mul(t0, 2) : float32\n"
        "store t1 to 0 : float32 (4,)\n");
}

TEST_CASE("a copy keeps what was there before a change in place", "[grouping]") {
  CHECK(groups_of({numbers({3000})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          const Tensor before = clone(x);
          add_(x, 1);
          return {mul(before, x), before};
        }) == "clone add mul\n");
}

TEST_CASE("other elements of the same memory do not join", "[grouping]") {
  // Shifted by one.
  CHECK(groups_of({numbers({101})}, [](const Tensors& in) -> Tensors {
          Tensor low = slice(in[0], 0, 0, 100), high = slice(in[0], 0, 1, 101);
          mul_(low, 2);
          return {add(high, 1)};
        }) == "mul\nadd\n");
  // In another order.
  CHECK(groups_of({numbers({8, 8})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          mul_(x, 2);
          return {add(x, t(x))};
        }) == "mul\nadd\n");
  // As one element that all read.
  CHECK(groups_of({numbers({9, 4})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          mul_(x, 2);
          return {add(x, slice(x, 0, 0, 1))};
        }) == "mul\nadd\n");
  // Of another dtype.
  CHECK(groups_of({numbers({6, 2})}, [](const Tensors& in) -> Tensors {
          Tensor x = in[0];
          mul_(x, 2);
          return {mul(view_as_complex(x), 2), exp(x)};
        }) == "mul exp\nmul\n");
  // Halves that lie apart may.
  CHECK(groups_of({numbers({2, 60})}, [](const Tensors& in) -> Tensors {
          Tensor low = select(in[0], 0, 0), high = select(in[0], 0, 1);
          mul_(low, high);
          return {add(high, low)};
        }) == "mul add\n");
}

TEST_CASE("an op whose operands overlap runs by itself", "[grouping]") {
  CHECK(groups_of({numbers({101})}, [](const Tensors& in) -> Tensors {
          Tensor low = slice(in[0], 0, 0, 100), high = slice(in[0], 0, 1, 101);
          add_(low, high);
          mul_(low, 2);
          return {};
        }) == "add\nmul\n");
}

TEST_CASE("views of results join by their elements", "[grouping]") {
  const auto f = [](const Tensors& in) -> Tensors {
    const Tensor a = mul(in[0], 2);                   // (4, 6)
    const Tensor b = add(view(a, {24}), 1);           // the same elements
    return {exp(t(view(b, {4, 6}))), mul(a, in[1])};  // in another order of dimensions
  };
  CHECK(groups_of({numbers({4, 6}), numbers({6})}, f) == "mul add exp mul\n");
}

TEST_CASE("shapes that differ do not join", "[grouping]") {
  CHECK(groups_of({numbers({4, 6}), numbers({6})}, [](const Tensors& in) -> Tensors {
          return {add(in[0], mul(in[1], 2))};
        }) == "mul\nadd\n");
}

TEST_CASE("sums of many tensors keep within the operands of a loop", "[grouping]") {
  Tensors inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(numbers({1000}));
  const auto f = [](const Tensors& in) -> Tensors {
    Tensor total = in[0];
    for (size_t i = 1; i < in.size(); ++i) total = add(total, in[i]);
    return {total};
  };
  const std::string groups = groups_of(inputs, f);
  CHECK(std::count(groups.begin(), groups.end(), '\n') == 3);
}

TEST_CASE("a chain of hundreds is cut into loops", "[grouping]") {
  const std::string groups = groups_of({numbers({300})}, [](const Tensors& in) -> Tensors {
    Tensor x = in[0];
    for (int i = 0; i < 300; ++i) x = add(mul(x, 0.5), 0.25);
    return {x};
  });
  const auto count = std::count(groups.begin(), groups.end(), '\n');
  CHECK((count >= 10 && count <= 14));
}

TEST_CASE("softmax by hand is loops around its reductions", "[grouping]") {
  CHECK(groups_of({numbers({20, 30})}, [](const Tensors& in) -> Tensors {
          const Tensor e = exp(mul(sub(in[0], amax(in[0], {1}, true)), 0.5));
          return {div(e, sum(e, {1}, true))};
        }) == "amax\nsub mul exp\nsum\ndiv\n");
}

TEST_CASE("a node whose numbers are given anew runs by itself", "[grouping]") {
  Tensors outputs;
  program::Graph graph =
      graph_of([](const Tensors& in) -> Tensors { return {add(exp(mul(in[0], 2)), 1)}; },
               {numbers({9})}, outputs);
  CHECK(program::group(graph).size() == 1);
  graph.nodes[0].numbers = 0;
  CHECK(program::group(graph).size() == 2);
}

TEST_CASE("Adam's formula is one loop", "[grouping]") {
  const Dims shape = {50, 70};
  const Tensors inputs = {numbers(shape), numbers(shape), numbers(shape), square(numbers(shape))};
  const Outcome outcome = check_bits(inputs, [](const Tensors& in) -> Tensors {
    Tensor p = in[0], m = in[2], v = in[3];
    const Tensor g = in[1];
    add_(mul_(m, 0.9), mul(g, 0.1));
    addcmul_(mul_(v, 0.999), g, g, 0.001);
    sub_(p, mul(div(m, add(sqrt(div(v, 0.1)), 1e-8)), 1e-3));
    return {};
  });
  INFO(outcome.text);
  CHECK(outcome.same);
  CHECK(outcome.loops == 1);
  CHECK(outcome.fused == outcome.nodes);
}

namespace {

// Ops drawn at random on tensors that share memory in many ways.
class Program {
 public:
  Program(unsigned seed, const Tensors& in) : random_(seed), pool_(in) {}

  Tensors run() {
    const unsigned count = 4 + random_() % 12;
    for (unsigned i = 0; i < count; ++i) step();
    Tensors out;
    for (int i = 0; i < 3; ++i) out.push_back(any());
    return out;
  }

 private:
  Tensor any() { return pool_[random_() % pool_.size()]; }
  Tensor floating() {
    for (;;)
      if (const Tensor x = any(); is_floating(x.dtype())) return x;
  }
  // A tensor that broadcasts to that shape; x itself where none is found.
  Tensor fitting(const Tensor& x) {
    for (int tries = 0; tries < 10; ++tries)
      if (const Tensor y = any(); can_expand(y.sizes(), x.sizes())) return y;
    return x;
  }
  void keep(const Tensor& x) { pool_.push_back(x); }

  void step() {
    switch (random_() % 6) {
      case 0: return look();
      case 1: return change();
      case 2: return random_() % 3 ? compute() : gather();
      default: return compute();
    }
  }
  void look() {
    const Tensor x = any();
    if (x.dim() == 0) return;
    const int64_t size = x.size(0);
    switch (random_() % 5) {
      case 0: return x.dim() == 2 ? keep(t(x)) : void();
      case 1: return size > 2 ? keep(slice(x, 0, 0, size - 1)) : void();
      case 2: return size > 2 ? keep(slice(x, 0, 1, size)) : void();
      case 3: return keep(select(x, 0, 0));
      default: return x.is_contiguous() ? keep(view(x, {x.numel()})) : void();
    }
  }
  void change() {
    Tensor x = floating();
    switch (random_() % 6) {
      case 0: return void(mul_(x, 0.5));
      case 1: return void(copy_(x, fitting(x)));
      case 2: return void(fill_(x, static_cast<double>(random_() % 3)));
      case 3: return void(clamp_min_(x, -1));
      case 4: return void(relu_(x));
      default: {
        const Tensor y = fitting(x);
        return y.dtype() == x.dtype() ? void(add_(x, y)) : void();
      }
    }
  }
  void compute() {
    const Tensor x = floating(), y = fitting(x);
    switch (random_() % 10) {
      case 0: return keep(add(x, y));
      case 1: return keep(mul(y, x));
      case 2: return keep(maximum(x, y));
      case 3: return keep(sigmoid(x));
      case 4: return keep(add(x, 1.5));
      case 5: return keep(clone(x));
      case 6: return keep(to(x, random_() % 2 ? DType::Float16 : DType::Float32));
      case 7: return keep(where(gt(x, 0), x, y));
      case 8: return keep(tanh(x));
      default: return keep(gt(x, y));
    }
  }
  void gather() {
    const Tensor x = floating();
    if (x.dim() == 2 && random_() % 2) return keep(mm(x, t(x)));
    if (x.dim() > 0) keep(random_() % 2 ? softmax(x, 0) : sum(x, {0}));
  }

  std::mt19937 random_;
  Tensors pool_;
};

}  // namespace

TEST_CASE("random programs have the bits of eager ones", "[grouping]") {
  int fused = 0, nodes = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const Dims shape = seed % 3 == 0 ? Dims{4, 6} : seed % 3 == 1 ? Dims{5, 5} : Dims{40, 3};
    const Tensor x = fresh(shape, DType::Float32, random);
    const Tensors inputs = {x, fresh(shape, DType::Float32, random),
                            fresh({shape[1]}, DType::Float32, random),
                            fresh(shape, DType::Float16, random), t(x)};
    const Outcome outcome =
        check_bits(inputs, [&](const Tensors& in) { return Program(seed, in).run(); });
    INFO("seed " << seed << '\n' << outcome.text);
    if (!outcome.same) FAIL();
    fused += outcome.fused;
    nodes += outcome.nodes;
  }
  CHECK(fused * 3 > nodes);
}

TEST_CASE("an integer division by zero in a loop names its op", "[grouping]") {
  for (const int64_t size : {int64_t{9}, int64_t{200000}}) {
    Tensors outputs;
    const Tensor x = numbers({size}, DType::Int32), y = add(mul(x, 0), 1);
    const program::Graph graph =
        graph_of([](const Tensors& in) -> Tensors { return {add(floor_divide(in[0], in[1]), 1)}; },
                 {x, y}, outputs);
    const auto groups = program::group(graph);
    REQUIRE(groups.size() == 1);
    const auto executor = program::make_executor(*groups[0].loop);
    Tensor zeros = mul(y, 0), out = mul(y, 0);
    const auto run = [&](const Tensor& divisor) {
      std::vector<char*> addresses;
      for (const program::BufferId b : groups[0].slots)
        addresses.push_back(b == 0 ? x.raw() : b == 1 ? divisor.raw() : out.raw());
      executor->run(addresses.data());
    };
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      CHECK(message_of([&] { run(zeros); }) == "floor_divide: integer division by zero");
      run(y);
      CHECK(std::memcmp(out.raw(), outputs[0].raw(), static_cast<size_t>(size) * 4) == 0);
    }
    set_num_threads(1);
  }
}

TEST_CASE("an error in a loop has the line of its op", "[grouping]") {
  const Tensor x = numbers({9}, DType::Int32), ones = add(mul(x, 0), 1);
  program::Capture capture;
  int line = 0;
  capture.locate = [&] { return "f.lua:" + std::to_string(++line); };
  capture.add_input(x);
  capture.add_input(ones);
  {
    const program::CaptureScope scope(capture);
    const Tensor y = floor_divide(add(x, 1), ones);
    capture.add_output(mul(y, 2));
  }
  program::Runner runner(program::Plan::make(capture.take()));
  REQUIRE(runner.plan().steps().size() == 1);
  Tensors outputs;
  CHECK(message_of([&] {
          runner.run(Tensors{x, mul(x, 0)}, outputs);
        }) == "floor_divide: integer division by zero");
  CHECK(runner.line() == "f.lua:2");
}

TEST_CASE("a loop stops when it is asked to", "[grouping]") {
  Tensors outputs;
  const Tensor x = numbers({1 << 22});
  const program::Graph graph =
      graph_of([](const Tensors& in) -> Tensors { return {exp(mul(in[0], 2))}; }, {x}, outputs);
  const auto groups = program::group(graph);
  REQUIRE(groups.size() == 1);
  const auto executor = program::make_executor(*groups[0].loop);
  char* addresses[] = {x.raw(), outputs[0].raw()};
  StopFlag* const before = execution.stop;
  StopFlag flag;
  execution.stop = &flag;
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    flag.request("enough");
    CHECK_THROWS_AS(executor->run(addresses), Interrupted);
    CHECK_FALSE(flag.requested());
    executor->run(addresses);
  }
  set_num_threads(1);
  execution.stop = before;
}

TEST_CASE("several threads run one executor at once", "[grouping]") {
  Tensors outputs;
  const Tensor x = numbers({3000}), bias = numbers({3000});
  const program::Graph graph =
      graph_of([](const Tensors& in) -> Tensors { return {mul(sigmoid(add(in[0], in[1])), 3)}; },
               {x, bias}, outputs);
  const auto groups = program::group(graph);
  const auto executor = program::make_executor(*groups.at(0).loop);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      std::vector<float> out(3000);
      for (int i = 0; i < 200; ++i) {
        std::fill(out.begin(), out.end(), 0.0f);
        char* addresses[] = {x.raw(), bias.raw(), reinterpret_cast<char*>(out.data())};
        executor->run(addresses);
        if (std::memcmp(out.data(), outputs[0].raw(), out.size() * 4) != 0) ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}

TEST_CASE("loops are for devices that have an executor", "[grouping]") {
  CHECK(program::has_executor(DeviceType::CPU));
  program::Loop loop;
  loop.device.type = static_cast<DeviceType>(1);
  CHECK_FALSE(program::has_executor(loop.device.type));
  CHECK_THROWS_AS(program::make_executor(loop), Error);
}
