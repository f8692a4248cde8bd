// tests/cpp/program/passes_fuzz_test.cpp: random programs of pointwise ops, views, changes in place
// through them, copies, reductions and products, before and after all passes: the same bits in the
// outputs, in the inputs and parameters that are written, and as many random numbers; as a plan
// too.
#include "tests/cpp/catch2.h"

#include <random>

#include "tensor/program/passes/passes.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

class Program {
 public:
  explicit Program(uint32_t seed) : random_(seed) {}

  // Tensors of which some share memory.
  Tensors arguments() {
    Tensors out;
    const int count = 2 + below(3);
    for (int i = 0; i < count; ++i) {
      if (i > 0 && below(3) == 0)
        out.push_back(view_of_one(out[below(i)]));
      else
        out.push_back(numbers(shape(), below(100) * 0.01, dtype()));
    }
    return out;
  }

  Tensors run(const Tensors& inputs, const Tensors& parameters) {
    pool_ = inputs;
    pool_.insert(pool_.end(), parameters.begin(), parameters.end());
    const int steps = 4 + below(14);
    for (int i = 0; i < steps; ++i) step();
    Tensors out;
    const int count = 1 + below(3);
    for (int i = 0; i < count; ++i) out.push_back(below(4) == 0 ? any() : pool_.back());
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  const Tensor& any() { return pool_[static_cast<size_t>(below(static_cast<int>(pool_.size())))]; }
  // Late ones rather than early ones.
  const Tensor& some() {
    const int last = static_cast<int>(pool_.size());
    return below(2) == 0 ? pool_[static_cast<size_t>(last - 1 - below(std::min(3, last)))] : any();
  }
  Dims shape() {
    static const Dims kShapes[] = {{2, 3}, {3, 2}, {3}, {2, 3}, {1, 3}, {3, 3}, {2, 3, 2}, {}};
    return kShapes[below(8)];
  }
  DType dtype() {
    const int which = below(12);
    return which == 0 ? DType::Float64 : which == 1 ? DType::Int64 : DType::Float32;
  }

  bool fits(const Tensor& from, const Tensor& to) { return can_expand(from.sizes(), to.sizes()); }
  // One that broadcasts to x.
  Tensor partner(const Tensor& x) {
    for (int i = 0; i < 6; ++i)
      if (const Tensor& y = some(); fits(y, x)) return y;
    return x;
  }
  bool may_be_written(const Tensor& x) {
    for (int d = 0; d < x.dim(); ++d)
      if (x.size(d) > 1 && x.stride(d) == 0) return false;
    return true;
  }

  Tensor view_of_one(const Tensor& x) {
    const int rank = x.dim();
    switch (below(6)) {
      case 0: return rank >= 2 ? transpose(x, 0, rank - 1) : unsqueeze(x, 0);
      case 1: return rank >= 1 ? select(x, 0, below(static_cast<int>(x.size(0)))) : unsqueeze(x, 0);
      case 2: return rank >= 1 ? slice(x, 0, x.size(0) > 1 ? 1 : 0, x.size(0), 1) : x;
      case 3: return x.is_contiguous() ? view(x, {x.numel()}) : unsqueeze(x, rank);
      case 4:
        return rank == 1 ? expand(x, {2, x.size(0)}) : x.is_contiguous() ? view(x, x.sizes()) : x;
      default: return rank == 2 ? permute(x, {1, 0}) : unsqueeze(x, 0);
    }
  }

  Tensor pointwise(const Tensor& x) {
    if (x.dtype() == DType::Bool) return convert(x, DType::Float32);
    const Tensor y = partner(x);
    switch (below(8)) {
      case 0: return neg(x);
      case 1: return relu(x);
      case 2: return add(x, y);
      case 3: return mul(x, y);
      case 4: return maximum(x, y);
      case 5: return mul(x, 0.5 * below(3));
      case 6: return gt(x, y);
      default: return exp(x);
    }
  }

  void write(Tensor x) {
    if (!may_be_written(x)) return;
    const Tensor y = partner(x);
    const bool same = x.dtype() == y.dtype() || y.dtype() == DType::Bool || is_floating(x.dtype());
    switch (below(7)) {
      case 0: fill_(x, below(4)); break;
      case 1: copy_(x, y); break;
      case 2:
        if (x.dtype() != DType::Bool && same) add_(x, y);
        break;
      case 3:
        if (is_floating(x.dtype())) mul_(x, 2.0 * below(2) - 1.0);
        break;
      case 4:
        if (is_floating(x.dtype()) && same) mul_(x, y);
        break;
      case 5:
        if (is_floating(x.dtype())) uniform_(x);
        break;
      default:
        if (is_floating(x.dtype())) calls::inplace("relu", x);
    }
  }

  Tensor other(const Tensor& x) {
    const int rank = x.dim();
    switch (below(9)) {
      case 0: return clone(x);
      case 1: return contiguous(x);
      case 2: return convert(x, below(2) == 0 ? x.dtype() : DType::Float64);
      case 3: return rank > 0 ? sum(x, {below(rank)}, below(2) == 0) : sum(x);
      case 4: return is_floating(x.dtype()) && rank > 0 ? softmax(x, below(rank)) : clone(x);
      case 5: {
        const Tensor& y = some();
        if (rank == 2 && y.dim() == 2 && x.size(1) == y.size(0) && x.dtype() == y.dtype() &&
            x.dtype() != DType::Bool)
          return mm(x, y);
        return cat({x, x}, 0 * rank);
      }
      case 6: return is_floating(x.dtype()) ? dropout_mask(x) : x;
      case 7: return rank > 0 ? index_select(x, 0, of({2}, {1, 1}, DType::Int64)) : clone(x);
      default: return clone(view_of_one(x));
    }
  }

  void step() {
    const Tensor x = some();
    switch (below(11)) {
      case 0:
      case 1:
      case 2: pool_.push_back(view_of_one(x)); break;
      case 3:
      case 4:
      case 5: pool_.push_back(pointwise(x)); break;
      case 6:
      case 7: write(x); break;
      case 8: pool_.push_back(relu(pool_[0])); break;
      default:
        if (x.dim() > 0) pool_.push_back(other(x));
    }
  }

  std::mt19937 random_;
  Tensors pool_;
};

// How many strips were run.
int strips = 0;

// By strips of as few rows as there can be.
Tensors by_strips(Graph graph, const Tensors& inputs, const Tensors& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) graph.parameters[i].tensor = parameters[i];
  Runner runner(Plan::make(std::move(graph), {.strip_bytes = 40}));
  strips += static_cast<int>(runner.plan().strips().size());
  Tensors outputs;
  runner.run(inputs, outputs);
  return outputs;
}

// The first seed whose program differs, with its graph before and after, or "".
std::string differs(uint32_t seed, const PassOptions& options, int64_t& nodes, int64_t& left) {
  Program program(seed);
  const Tensors inputs = program.arguments(), parameters = program.arguments();
  Copies copies;
  const Tensors start = copies(inputs), held = copies(parameters);
  Tensors gave;
  Graph graph;
  default_generator().manual_seed(7);
  try {
    graph = captured(
        inputs, [&](Tensors& in) { return program.run(in, parameters); }, &gave);
  } catch (const Error& e) {
    return text("program ", static_cast<int64_t>(seed), " cannot run: ", e.what());
  }
  // The parameters as they were: those given, and the tensors made on the way, which hold what was
  // written to them.
  for (Parameter& each : graph.parameters)
    for (size_t i = 0; i < parameters.size(); ++i)
      if (&each.tensor.storage() == &parameters[i].storage()) {
        each.tensor = view_of(held[i].storage(), each.tensor.sizes(), each.tensor.strides(),
                              each.tensor.offset(), each.tensor.dtype());
        break;
      }
  const size_t count = graph.parameters.size();
  const Outcome before = outcome(graph, start, count);
  Graph changed = graph;
  run_passes(changed, options);
  nodes += static_cast<int64_t>(graph.nodes.size());
  left += static_cast<int64_t>(changed.nodes.size());
  const Outcome now = outcome(changed, start, count);
  std::vector<std::string> eager;
  for (const Tensor& each : gave) eager.push_back(bits(each));
  const Outcome planned = outcome(changed, start, count, by_plan);
  const Outcome stripped = outcome(changed, start, count, by_strips);
  if (now == before && before.error.empty() && before.outputs == eager && planned == before &&
      stripped == before)
    return "";
  return text("program ", static_cast<int64_t>(seed), " ", before.error, " / ", now.error, " / ",
              planned.error, " / ", stripped.error,
              now != before       ? ""
              : planned == before ? ", only by strips"
                                  : ", only as a plan",
              "\n", to_string(graph), "\n", to_string(changed));
}

void fuzz(uint32_t first, uint32_t count, const PassOptions& options) {
  int64_t nodes = 0, left = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const std::string problem = differs(seed, options, nodes, left);
    if (!problem.empty()) FAIL(problem);
  }
  // The passes do find something.
  INFO(nodes << " nodes, " << left << " left");
  CHECK(left * 10 < nodes * 9);
  CHECK(strips > 100);
}

}  // namespace

TEST_CASE("random programs give the same bits after all passes") { fuzz(1, 3000, {}); }

TEST_CASE("random programs give the same bits with constants computed before") {
  PassOptions options;
  options.parameters_constant = true;
  fuzz(100000, 2000, options);
}
