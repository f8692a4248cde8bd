// tests/cpp/program/describe_test.cpp: what nodes cost, counted by hand, and graphs as text for
// people and for Graphviz.
#include "tests/cpp/catch2.h"

#include "tensor/program/describe.h"
#include "tensor/program/dot.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

// The cost of the only op in a function.
Cost cost(const Tensors& inputs, const Function& f) {
  const Graph graph = captured(inputs, f);
  for (const Node& node : graph.nodes)
    if (!is_view(node)) return cost_of(graph, node);
  return {};
}

}  // namespace

TEST_CASE("flops and bytes of ops are those counted by hand") {
  const Tensor a = numbers({4, 3}), b = numbers({3, 5}), w = numbers({5, 3}), v = numbers({5});
  const Tensor image = numbers({2, 4, 6, 6}), k = numbers({8, 2, 3, 3}), none;
  const Cost mm_cost = cost({a, b}, [](Tensors& in) -> Tensors { return {mm(in[0], in[1])}; });
  CHECK(mm_cost.flops == 2.0 * 4 * 3 * 5);
  CHECK(mm_cost.bytes_read == 4 * (12 + 15));
  CHECK(mm_cost.bytes_written == 4 * 20);
  CHECK(cost({a, w, v}, [](Tensors& in) -> Tensors {
          return {linear(in[0], in[1], in[2])};
        }).flops == 2.0 * 4 * 3 * 5 + 20);
  // 8 channels of 6 x 6, each a sum of 2 x 3 x 3 products.
  CHECK(cost({image, k}, [&](Tensors& in) -> Tensors {
          return {conv(in[0], in[1], none, 1, 2)};
        }).flops == 2.0 * 2 * 8 * 36 * 18);
  const Cost wide = cost({a}, [](Tensors& in) -> Tensors {
    return {exp(expand(view(in[0], {1, 4, 3}), {10, 4, 3}))};
  });
  CHECK(wide.flops == 120);
  CHECK(wide.bytes_read == 4 * 12);
  CHECK(wide.bytes_written == 4 * 120);
  CHECK(cost({image}, [](Tensors& in) -> Tensors { return {sum(in[0])}; }).flops == 288);
  CHECK(cost({a}, [](Tensors& in) -> Tensors { return {softmax(in[0], 1)}; }).flops == 60);
  CHECK(cost({a}, [](Tensors& in) -> Tensors { return {clone(in[0])}; }).flops == 0);
  const Cost change = cost({a}, [](Tensors& in) -> Tensors { return {add_(in[0], 1.0)}; });
  CHECK(change.bytes_read == 48);
  CHECK(change.bytes_written == 48);
  const Cost picked = cost({a}, [](Tensors& in) -> Tensors {
    return {index_select(in[0], 0, of({1}, {1}, DType::Int64))};
  });
  CHECK(picked.flops == 0);
  CHECK(picked.bytes_read == 4 * 3 + 8);
}

TEST_CASE("units have three digits") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1000) == "1.00 KB");
  CHECK(bytes_text(20500) == "20.5 KB");
  CHECK(bytes_text(999600) == "1.00 MB");
  CHECK(flops_text(123456789) == "123 Mflop");
}

TEST_CASE("a graph is described by lines of the script, and drawn with its writes") {
  Capture capture;
  const Tensor x = numbers({2, 3});
  Tensor w = numbers({3, 4});
  int line = 10;
  capture.locate = [&] { return "train.lua:" + std::to_string(line); };
  capture.add_input(x);
  capture.name_parameter(w, "weight \"w\"");
  Tensor y;
  {
    const CaptureScope scope(capture);
    y = mm(x, w);
    line = 11;
    add_(y, 1.0);
    y = transpose(y, 0, 1);
  }
  capture.add_output(y);
  const Graph graph = capture.take();
  CHECK(describe(graph) == R"(train.lua:10
  %2 = mm(%0, %1) : float32 (2, 4)  # reads 72 B, writes 32 B, 48 flop
train.lua:11
  %2 = add_(%2, 1) : float32 (2, 4)  # reads 32 B, writes 32 B, 8 flop
  %3 = transpose(%2, 0, 1) : float32 (4, 2) strides (1, 4)
2 ops, 1 views: reads 104 B, writes 64 B, 56 flop
memory: inputs 24 B, parameters 48 B, made on the way 32 B
)");
  CHECK(to_dot(graph, {"x"}) == R"dot(digraph program {
  node [shape=box];
  v0 [shape=ellipse, label="x"];
  v1 [shape=ellipse, label="weight \"w\""];
  subgraph cluster_0 {
  label="train.lua:10";
  n0 [label="mm\n48 flop"];
  }
  subgraph cluster_1 {
  label="train.lua:11";
  n1 [label="add_\n8 flop"];
  n2 [label="transpose", style=dashed];
  }
  v0 -> n0 [label="float32 (2, 3)"];
  v1 -> n0 [label="float32 (3, 4)"];
  n0 -> n1 [label="float32 (2, 4)"];
  n1 -> n2 [label="float32 (2, 4)"];
  output1 [shape=ellipse, label="output 1"];
  n2 -> output1 [label="float32 (4, 2) strides (1, 4)"];
}
)dot");
}
