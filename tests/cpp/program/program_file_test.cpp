// tests/cpp/program/program_file_test.cpp: programs as files: what is written is read again, what
// is damaged is refused, and runs without Lua give what the ops gave.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "tensor/io/json.h"
#include "tensor/io/json_tree.h"
#include "tensor/io/read_budget.h"
#include "tensor/program/capture.h"
#include "tensor/program/file/file_arguments.h"
#include "tensor/program/file/program_file.h"
#include "tensor/program/program.h"
#include "tensor/program/shapes/check_graph.h"
#include "tensor/program/shapes/dynamic.h"
#include "tensor/program/shapes/dynamic_argument.h"
#include "tensor/program/shapes/schema.h"
#include "tests/cpp/catch2.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
using namespace moonlet::program;

namespace {

Tensor range(Dims sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return view(to(arange(n), DType::Float32), sizes);
}

struct Net {
  Tensor w = mul(range({3, 4}), Scalar(0.1)), b = range({4});
  std::vector<Tensor> operator()(const Tensor& x) const {
    const Tensor h = relu(add(matmul(x, w), b));
    return {softmax(h, 1), sum(h, Dims{1}, true), transpose(h, 0, 1)};
  }
};

Graph captured(const Net& net, const Tensor& x) {
  const GradModeGuard off(false);
  Capture capture;
  capture.locate = [] { return std::string("net.lua:7"); };
  capture.add_input(x);
  capture.name_parameter(net.w, "w");
  capture.name_parameter(net.b, "b");
  std::vector<Tensor> outputs;
  {
    const CaptureScope scope(capture);
    outputs = net(x);
  }
  for (const Tensor& y : outputs) capture.add_output(y);
  REQUIRE_FALSE(capture.stopped());
  return capture.take();
}

ProgramData data_of(const Net& net, const Tensor& x) {
  ProgramData data;
  data.graph = captured(net, x);
  data.input_names = {"x"};
  data.output_names = {"p", "", "turned"};
  data.notes = {{"from", "a \"test\""}};
  return data;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = contiguous(a), y = contiguous(b);
  return x.dtype() == y.dtype() && x.sizes() == y.sizes() &&
         std::memcmp(x.raw(), y.raw(), x.numel() * size_of(x.dtype())) == 0;
}

struct Folder {
  Folder() {
    char name[] = "/tmp/program_file_XXXXXX";
    path = std::string(mkdtemp(name)) + "/";
  }
  ~Folder() {
    for (const char* name : {"net.mlp", "net.safetensors"}) unlink((path + name).c_str());
    rmdir(path.c_str());
  }
  std::string path;
};

Argument read_back(const Argument& argument) {
  io::JsonWriter out;
  write_argument(out, argument);
  return read_argument(io::JsonTree::read(out.take(), "test", nullptr));
}

}  // namespace

TEST_CASE("schemas are cut into arguments") {
  const Schema one =
      read_schema("pad(Tensor x, int[*] pad, string mode=\"a, (b\", Scalar value=0) -> Tensor");
  REQUIRE(one.arguments.size() == 4);
  CHECK(one.arguments[1].type == "int[*]");
  CHECK(one.arguments[2].name == "mode");
  CHECK(one.results == 1);
  const Schema two = read_schema("adam(Tensor[]! x, Dim[]? dims) -> (Tensor a, Tensor[] b)");
  REQUIRE(two.arguments.size() == 2);
  CHECK(two.arguments[0].type == "Tensor[]");
  CHECK(two.results == 2);
}

TEST_CASE("all kinds of arguments are read as they were written") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const BoxedValue values[] = {BoxedValue(),
                               Scalar(true),
                               Scalar(INT64_MIN),
                               Scalar(0.1),
                               Scalar(-0.0),
                               Scalar(nan),
                               Scalar(-inf),
                               Scalar(complex128(1.5, nan)),
                               INT64_MAX,
                               inf,
                               -inf,
                               nan,
                               1e-300,
                               true,
                               std::string("mean \"é\""),
                               Dims{},
                               Dims{1, -2, INT64_MAX},
                               std::vector<int64_t>{},
                               std::vector<int64_t>{INT64_MIN, 3},
                               std::vector<double>{nan, inf, 0.1},
                               DType::BFloat16,
                               Device{},
                               MemoryFormat::ChannelsLast,
                               Options{DType::Float64, {}},
                               static_cast<Generator*>(nullptr)};
  for (const BoxedValue& value : values) {
    INFO("kind " << value.index());
    CHECK(is_same(read_back(value), Argument(value)));
  }
  CHECK(is_same(read_back(ValueRef{7}), ValueRef{7}));
  CHECK(is_same(read_back(ValueRef{}), ValueRef{}));
  CHECK(is_same(read_back(ValueRefs{}), ValueRefs{}));
  CHECK(is_same(read_back(ValueRefs{{1}, {kNone}}), ValueRefs{{1}, {kNone}}));
}

TEST_CASE("a program is saved, loaded and run, bit for bit") {
  const Net net;
  const Tensor x = range({2, 3});
  const Program made(data_of(net, x));
  const Folder folder;
  for (const std::string weights : {"", "net.safetensors"}) {
    made.save(folder.path + "net.mlp", weights);
    const Program loaded = Program::load(folder.path + "net.mlp");
    CHECK(to_string(loaded.data().graph) == to_string(made.data().graph));
    CHECK(loaded.data().graph.lines == std::vector<std::string>{"net.lua:7"});
    CHECK(loaded.data().notes == made.data().notes);
    CHECK(loaded.inputs()[0].name == "x");
    CHECK(loaded.outputs()[2].sizes == Dims{4, 2});
    CHECK(loaded.ops() == made.ops());
    CHECK(loaded.parameters().size() == 2);
    Program::Context context(loaded);
    std::vector<Tensor> outputs;
    for (int i = 0; i < 3; ++i) {
      const Tensor input = sub(x, Scalar(1.5 * i));
      const std::vector<Tensor> wanted = net(input);
      context.run(std::vector{input}, outputs);
      for (size_t k = 0; k < wanted.size(); ++k) CHECK(same_bits(outputs[k], wanted[k]));
    }
  }
}

TEST_CASE("weights beside a program are those it was saved with") {
  const Folder folder;
  const Net net;
  const Program made(data_of(net, range({2, 3})));
  made.save(folder.path + "net.mlp", "net.safetensors");
  io::save_safetensors(folder.path + "net.safetensors", {{"w", net.w}, {"b", neg(net.b)}});
  CHECK_THROWS_WITH(Program::load(folder.path + "net.mlp"),
                    ContainsSubstring("does not hold the weights"));
  CHECK_THROWS_WITH(made.save(folder.path + "net.mlp", "../net.safetensors"),
                    ContainsSubstring("without a folder"));
}

TEST_CASE("a program runs on the host's memory") {
  const Net net;
  const Program program(data_of(net, range({2, 3})));
  Program::Context context(program);
  const Tensor x = sub(range({2, 3}), Scalar(2.0));
  const std::vector<Tensor> wanted = net(x);
  std::vector<float> p(8), s(2), t(8);
  const Program::Input in[] = {{x.raw(), DType::Float32, {2, 3}}};
  const Program::Output out[] = {{p.data(), DType::Float32, {2, 4}},
                                 {s.data(), DType::Float32, {2, 1}},
                                 {t.data(), DType::Float32, {4, 2}}};
  context.run(in, out);
  CHECK(std::memcmp(p.data(), wanted[0].raw(), 32) == 0);
  CHECK(std::memcmp(s.data(), wanted[1].raw(), 8) == 0);
  CHECK(std::memcmp(t.data(), contiguous(wanted[2]).raw(), 32) == 0);
  const Program::Input wrong[] = {{x.raw(), DType::Float32, {3, 2}}};
  CHECK_THROWS_WITH(context.run(wrong, out),
                    ContainsSubstring("input 'x' to be float32 of shape (2, 3)"));
  const Program::Input none[] = {{nullptr, DType::Float32, {2, 3}}};
  CHECK_THROWS_WITH(context.run(none, out), ContainsSubstring("has no memory"));
}

TEST_CASE("threads run one program, each in its context") {
  const Net net;
  const Program program(data_of(net, range({2, 3})));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Program::Context context(program);
      std::vector<Tensor> outputs;
      for (int i = 0; i < 200; ++i) {
        const Tensor x = sub(range({2, 3}), Scalar(static_cast<double>(t + i)));
        context.run(std::vector{x}, outputs);
        const std::vector<Tensor> wanted = net(x);
        for (size_t k = 0; k < wanted.size(); ++k) wrong[t] += !same_bits(outputs[k], wanted[k]);
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("parameters are replaced by others of their kind") {
  Net net;
  Program program(data_of(net, range({2, 3})));
  Program::Context context(program);
  std::vector<Tensor> outputs;
  const Tensor x = range({2, 3});
  context.run(std::vector{x}, outputs);
  net.b = neg(net.b);
  program.set_parameter("b", net.b);
  outputs.clear();
  context.run(std::vector{x}, outputs);
  CHECK(same_bits(outputs[0], net(x)[0]));
  CHECK_THROWS_WITH(program.set_parameter("c", net.b), ContainsSubstring("no parameter 'c'"));
  CHECK_THROWS_WITH(program.set_parameter("b", range({5})),
                    ContainsSubstring("expected 'b' to be float32 of shape (4,)"));
}

TEST_CASE("sizes that vary are found from captures") {
  const Net net;
  ProgramData data = data_of(net, range({4, 3}));
  data.dynamic.sizes = {{0, 0, 0}};
  fit_dynamic(
      data,
      {captured(net, range({4, 3})), captured(net, range({7, 3})), captured(net, range({10, 3}))},
      {{4}, {7}, {10}});
  const Program program(std::move(data));
  CHECK(program.inputs()[0].sizes == Dims{-1, 3});
  CHECK(program.outputs()[2].sizes == Dims{4, -1});
  const Folder folder;
  program.save(folder.path + "net.mlp");
  const Program loaded = Program::load(folder.path + "net.mlp");
  Program::Context context(loaded);
  for (const int64_t n : {1, 2, 30, 4, 0, 5, 6, 7, 8, 9, 10, 1}) {
    std::vector<Tensor> outputs;
    const Tensor x = range({n, 3});
    context.run(std::vector{x}, outputs);
    const std::vector<Tensor> wanted = net(x);
    for (size_t k = 0; k < wanted.size(); ++k) CHECK(same_bits(outputs[k], wanted[k]));
  }
}

TEST_CASE("graphs that are not whole are refused") {
  const Net net;
  const ProgramData data = data_of(net, range({2, 3}));
  const auto refused = [&](auto&& change, const char* reason) {
    ProgramData changed = data;
    change(changed.graph);
    CHECK_THROWS_WITH(check_graph(changed.graph, DType::Float32), ContainsSubstring(reason));
  };
  refused([](Graph& g) { g.nodes[0].arguments[0] = ValueRef{99}; }, "there is no value 99");
  refused([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }, "used before it is made");
  refused([](Graph& g) { g.nodes[0].arguments.pop_back(); }, "arguments, got");
  refused([](Graph& g) { g.nodes[0].arguments[0] = BoxedValue(true); }, "must be a tensor");
  refused([](Graph& g) { g.values.back().sizes[0] = 99; }, "the graph says");
  refused([](Graph& g) { g.values.back().offset = 1; }, "the graph says");
  refused([](Graph& g) { g.buffers.back().bytes = 1; }, "bytes");
  refused([](Graph& g) { g.values[g.inputs[0]].sizes[0] = 1 << 20; }, "");
  refused([](Graph& g) { g.nodes.pop_back(); }, "");
  refused([](Graph& g) { g.outputs.push_back(1000); }, "output 1000");
  for (size_t n = 0; n < data.graph.nodes.size(); ++n)
    if (std::string(data.graph.nodes[n].op->name) == "softmax")
      refused([&](Graph& g) { g.nodes[n].arguments[1] = BoxedValue(int64_t{2}); }, "dim");
}

TEST_CASE("no number of a file, however wrong, does harm") {
  const Net net;
  ProgramData data = data_of(net, range({4, 3}));
  data.dynamic.sizes = {{0, 0, 0}};
  fit_dynamic(
      data,
      {captured(net, range({4, 3})), captured(net, range({7, 3})), captured(net, range({10, 3}))},
      {{4}, {7}, {10}});
  const std::string json = to_json(data, {{"w", false}, {"b", false}});
  const io::NamedTensors tensors{{"w", net.w}, {"b", net.b}};
  const Tensor x = range({4, 3});
  int refused = 0, run = 0;
  for (size_t at = 0; at < json.size(); ++at) {
    if (!std::isdigit(static_cast<unsigned char>(json[at])) ||
        std::isdigit(static_cast<unsigned char>(json[at - 1])))
      continue;
    size_t end = at;
    while (std::isdigit(static_cast<unsigned char>(json[end]))) ++end;
    for (const char* number :
         {"-1", "0", "1", "2", "3", "5", "12", "255", "2147483647", "9223372036854775807",
          "4611686018427387904", "null", "\"x\"", "[]"}) {
      std::string changed = json;
      changed.replace(at, end - at, number);
      try {
        io::ReadBudget budget(changed.size());
        ProgramData read = from_json(changed, tensors, budget);
        check_graph(read.graph, read.default_dtype);
        check_dynamic(read);
        const Program program(std::move(read));
        Program::Context context(program);
        std::vector<Tensor> outputs;
        context.run(std::vector{x}, outputs);
        ++run;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(run > 0);
}

namespace {

// Counts its runs in `count`, whose rows it adds to the input, and doubles the input itself.
ProgramData counting(Tensor& count, bool changes_input) {
  const GradModeGuard off(false);
  Capture capture;
  capture.keep_changed();
  Tensor x = range({2, 3});
  capture.add_input(x);
  capture.name_parameter(count, "count");
  Tensor y;
  {
    const CaptureScope scope(capture);
    Tensor row = select(count, 0, 1);
    add_(row, Scalar(1.0));
    y = add(x, row);
    if (changes_input) mul_(x, Scalar(2.0));
  }
  capture.add_output(y);
  REQUIRE_FALSE(capture.stopped());
  const std::vector<Capture::Changed>& changed = capture.changed();
  REQUIRE(changed.size() == (changes_input ? 2 : 1));
  ProgramData data;
  data.graph = capture.take();
  data.graph.parameters[0].tensor =
      alias(changed[0].before, count.sizes(), count.strides(), count.offset());
  data.input_names = data.output_names = {""};
  return data;
}

}  // namespace

TEST_CASE("each context has its state") {
  Tensor count = zeros({2, 3});
  const Program program(counting(count, false));
  CHECK(program.parameters().empty());
  REQUIRE(program.initial_state().size() == 1);
  CHECK(program.initial_state()[0].first == "count");
  CHECK_THROWS_WITH(Program(program).set_parameter("count", count), ContainsSubstring("is state"));
  const Folder folder;
  program.save(folder.path + "net.mlp");
  const Tensor x = range({2, 3});
  const auto after = [&](Program::Context& context, double runs) {
    std::vector<Tensor> outputs;
    context.run(std::vector{x}, outputs);
    CHECK(same_bits(outputs[0], add(x, Scalar(runs))));
  };
  for (const Program& each : {program, Program::load(folder.path + "net.mlp")}) {
    Program::Context one(each), other(each);
    after(one, 1), after(one, 2), after(other, 1), after(one, 3);
    CHECK(same_bits(select(one.state()[0].second, 0, 1), full({3}, Scalar(3.0))));
    CHECK(same_bits(select(one.state()[0].second, 0, 0), zeros({3})));
    CHECK(same_bits(each.initial_state()[0].second, zeros({2, 3})));
    one.save(folder.path + "net.mlp");
    one.reset();
    after(one, 1), after(other, 2);
    Program::Context later(Program::load(folder.path + "net.mlp"));
    after(later, 4);
  }
  // What the capture itself has counted is not there.
  CHECK(same_bits(select(count, 0, 1), full({3}, Scalar(1.0))));
}

TEST_CASE("threads with state of their own run one program") {
  Tensor count = zeros({2, 3});
  const Program program(counting(count, false));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Program::Context context(program);
      std::vector<Tensor> outputs;
      const Tensor x = range({2, 3});
      for (int i = 1; i <= 100 * (t + 1); ++i) {
        context.run(std::vector{x}, outputs);
        wrong[t] += !same_bits(outputs[0], add(x, Scalar(static_cast<double>(i))));
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a host says where an input goes that is changed") {
  Tensor count = zeros({2, 3});
  const Program program(counting(count, true));
  REQUIRE(program.inputs()[0].changed);
  Program::Context context(program);
  float x[6] = {0, 1, 2, 3, 4, 5}, later[6] = {}, y[6];
  const Program::Output out[] = {{y, DType::Float32, {2, 3}}};
  const Program::Input apart[] = {{x, DType::Float32, {2, 3}, later}};
  context.run(apart, out);
  CHECK((x[5] == 5 && later[5] == 10 && later[1] == 2 && y[5] == 6));
  const Program::Input same[] = {{x, DType::Float32, {2, 3}, x}};
  context.run(same, out);
  CHECK((x[5] == 10 && y[5] == 7));
  const Program::Input none[] = {{x, DType::Float32, {2, 3}}};
  CHECK_THROWS_WITH(context.run(none, out), ContainsSubstring("Input::changed"));
  std::vector<Tensor> outputs;
  CHECK_THROWS_WITH(context.run(std::vector{transpose(range({3, 2}), 0, 1)}, outputs),
                    ContainsSubstring("which the program changes, to have strides"));
}

TEST_CASE("an input without the memory that a program looks at is refused") {
  ProgramData data;
  Graph& graph = data.graph;
  graph.buffers = {{Buffer::Kind::Input, {}, 4000}};
  graph.values = {{0, DType::Float32, {4}, {1}, 0}, {0, DType::Float32, {1000}, {1}, 0}};
  graph.inputs = {0};
  graph.outputs = {1};
  program::Node node;
  node.op = find_raw_op("strided_view");
  node.arguments = {ValueRef{0},         BoxedValue(Dims{1000}),
                    BoxedValue(Dims{1}), BoxedValue(int64_t{0}),
                    BoxedValue(Dims{1}), BoxedValue(int64_t{0})};
  node.results = {ValueRef{1}};
  graph.nodes = {node};
  data.input_names = data.output_names = {""};
  const Program program(std::move(data));
  Program::Context context(program);
  std::vector<Tensor> outputs;
  CHECK_THROWS_WITH(context.run(std::vector{range({4})}, outputs),
                    ContainsSubstring("has too little memory"));
}
