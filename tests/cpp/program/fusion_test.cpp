// tests/cpp/program/fusion_test.cpp: groups of nodes as loops, and the block executor: every
// pointwise row in random chains, dtypes, layouts and sizes with the bits of eager ops; what may
// join, and what aliasing forbids.
#include "tests/cpp/catch2.h"

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tensor/runtime/threads.h"
#include "tests/cpp/program/fusion_harness.h"

using namespace moonlet;
using namespace moonlet::fusion_test;

namespace {

const std::vector<int64_t> kSizes = {0, 1, 7, 63, 64, 1000, 70000};

Dims shape_of(int64_t size, std::mt19937& random) {
  if (size == 0) return random() % 2 ? Dims{0} : Dims{3, 0};
  if (size == 1) return random() % 2 ? Dims{} : Dims{1, 1};
  if (size == 7) return random() % 2 ? Dims{7} : Dims{1, 7};
  if (size == 63) return random() % 2 ? Dims{9, 7} : Dims{3, 3, 7};
  if (size == 64) return random() % 2 ? Dims{64} : Dims{4, 2, 8};
  if (size == 1000) return random() % 2 ? Dims{20, 50} : Dims{10, 10, 10};
  return random() % 2 ? Dims{70, 1000} : Dims{7, 100, 100};
}

// A tensor of that shape, or one that broadcasts to it, in one of several layouts.
Tensor draw(const Dims& shape, DType dtype, std::mt19937& random) {
  const int rank = shape.size();
  switch (random() % 6) {
    case 0: {  // dimensions the other way round
      Dims turned, order;
      for (int d = rank - 1; d >= 0; --d) turned.push_back(shape[d]), order.push_back(d);
      return views::permute(fresh(turned, dtype, random), order);
    }
    case 1: {  // every second element of the last dimension
      if (rank == 0) break;
      Dims wide = shape;
      wide.back() *= 2;
      return views::slice(fresh(wide, dtype, random), rank - 1, 0, wide.back(), 2);
    }
    case 2: {  // a row or a column
      Dims narrow = shape;
      if (rank == 0) break;
      narrow[static_cast<int>(random() % static_cast<unsigned>(rank))] = 1;
      return fresh(narrow, dtype, random);
    }
    case 3:
      if (random() % 2) break;
      return fresh({}, dtype, random);
    default: break;
  }
  return fresh(shape, dtype, random);
}

struct Row {
  const OpInfo* op;
  const RawOp* raw;
};
std::vector<Row> pointwise_rows() {
  std::vector<Row> rows;
  for (const OpInfo* op : all_ops())
    if (op->row->kind == OpKind::Pointwise && op->form == OpInfo::Form::Plain)
      if (const RawOp* raw = find_raw_op(op->row->name)) rows.push_back({op, raw});
  return rows;
}

// Arguments for a row: x as the first tensor, others drawn.
BoxedValues arguments(const Row& row, const Tensor& x, std::mt19937& random,
                      std::vector<Tensor>& inputs) {
  BoxedValues out;
  bool is_first = true;
  for (int i = 0; i < row.op->row->argument_count; ++i) {
    const std::string type = row.op->row->arguments[i].type;
    if ((row.raw->tensors >> i & 1u) == 0) {
      out.emplace_back(Scalar(static_cast<int64_t>(random() % 3 + 1)));
      continue;
    }
    if (type.find("Mask") != std::string::npos) {
      inputs.push_back(draw(x.sizes(), DType::Bool, random));
      out.emplace_back(inputs.back());
    } else if (is_first) {
      out.emplace_back(x);
      is_first = false;
    } else if (type.find("Operand") != std::string::npos && random() % 3 == 0) {
      out.emplace_back(random() % 2 ? Scalar(int64_t{2}) : Scalar(1.5));
    } else {
      inputs.push_back(draw(x.sizes(), x.dtype(), random));
      out.emplace_back(inputs.back());
    }
  }
  return out;
}

struct Link {
  const OpInfo* op;
  BoxedValues arguments;
  Tensor result;
};

// Whether the op takes such arguments, as it may refuse dtypes and values.
bool takes(const Row& row, const BoxedValues& arguments, Tensor& result) {
  try {
    result = std::get<Tensor>(call_op(*row.op, arguments)[0]);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Ops of which each takes the result of the one before; `wanted` is among them. Returns whether it
// is.
bool draw_chain(const std::vector<Row>& rows, const Row& wanted, DType dtype, int64_t size,
                std::mt19937& random, std::vector<Tensor>& inputs, std::vector<Link>& chain) {
  inputs.push_back(draw(shape_of(size, random), dtype, random));
  Tensor x = inputs[0];
  const unsigned length = 2 + random() % 5, position = random() % 2;
  bool found = false;
  for (unsigned i = 0; i < length; ++i) {
    for (int tries = 0; tries < 8; ++tries) {
      const bool is_wanted = i == position && tries == 0;
      const Row& row = is_wanted ? wanted : rows[random() % rows.size()];
      std::vector<Tensor> drawn;
      Link link{row.op, arguments(row, x, random, drawn), {}};
      if (!takes(row, link.arguments, link.result)) continue;
      found = found || is_wanted;
      inputs.insert(inputs.end(), drawn.begin(), drawn.end());
      x = link.result;
      chain.push_back(std::move(link));
      break;
    }
  }
  return found;
}

// The chain run on given inputs: what was drawn as an input or computed stands for its position.
std::vector<Tensor> run_chain(const std::vector<Link>& chain, const std::vector<Tensor>& drawn,
                              const std::vector<Tensor>& inputs, bool all) {
  std::map<const TensorImpl*, Tensor> known;
  for (size_t i = 0; i < drawn.size(); ++i) known[drawn[i].impl()] = inputs[i];
  std::vector<Tensor> results;
  for (const Link& link : chain) {
    BoxedValues now;
    for (const BoxedValue& each : link.arguments) {
      const auto* t = std::get_if<Tensor>(&each);
      now.push_back(t ? BoxedValue(known.at(t->impl())) : each);
    }
    const Tensor y = std::get<Tensor>(call_op(*link.op, now)[0]);
    known[link.result.impl()] = y;
    results.push_back(y);
  }
  if (!all) results.erase(results.begin(), results.end() - 1);
  return results;
}

}  // namespace

TEST_CASE("chains of every pointwise row have the bits of eager ops", "[fusion]") {
  const std::vector<Row> rows = pointwise_rows();
  REQUIRE(rows.size() > 100);
  std::mt19937 random(7);
  std::set<std::string> missing;
  int loops = 0, nodes = 0, fused = 0;
  for (const Row& row : rows) {
    int found = 0;
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto dtype = static_cast<DType>(t);
      for (const int64_t size : kSizes) {
        if (size == 70000 && random() % 24 != 0) continue;
        set_num_threads(size == 70000 ? 1 + static_cast<int>(random() % 2) : 1);
        std::vector<Tensor> inputs;
        std::vector<Link> chain;
        if (draw_chain(rows, row, dtype, size, random, inputs, chain)) ++found;
        if (chain.empty()) continue;
        const bool all = random() % 4 == 0;
        INFO(row.op->name << ' ' << text(dtype) << " size " << size);
        const Outcome outcome = check_bits(inputs, [&](const std::vector<Tensor>& in) {
          return run_chain(chain, inputs, in, all);
        });
        if (!outcome.same) FAIL(outcome.text);
        loops += outcome.loops;
        nodes += outcome.nodes;
        fused += outcome.fused;
      }
    }
    if (found == 0) missing.insert(row.op->name);
  }
  set_num_threads(1);
  std::string names;
  for (const std::string& each : missing) names += each + ' ';
  CHECK(names == "");
  CHECK(loops > 1000);
  CHECK(fused * 10 > nodes * 5);  // most chains are loops
}
