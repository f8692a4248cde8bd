// tensor/program/parts/trace.cpp: a path through the tree of a function's ops becomes a graph.
#include "tensor/program/parts/trace.h"

#include <algorithm>
#include <string_view>

#include "tensor/core/error.h"

namespace moonlet::program {

PartEnd::PartEnd() = default;
PartEnd::~PartEnd() = default;

// One step after the other, as the tree may be deep.
Trace::~Trace() {
  std::vector<std::unique_ptr<TraceStep>> steps;
  const auto take = [&](PartEnd& end) {
    if (end.next != nullptr) steps.push_back(std::move(end.next));
  };
  take(start);
  while (!steps.empty()) {
    const std::unique_ptr<TraceStep> step = std::move(steps.back());
    steps.pop_back();
    for (auto& each : step->next) steps.push_back(std::move(each));
    if (step->end != nullptr) take(*step->end);
  }
}

namespace {

Node node_of(const TraceStep& step) {
  Node node;
  node.op = step.op;
  node.form = step.form;
  node.arguments = step.arguments;
  node.results = step.results;
  return node;
}

bool is_real(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

}  // namespace

void TraceStep::work_out() {
  const Node node = node_of(*this);
  each_written(node, [&](ValueId id) { written.push_back(id); });
  bool takes_tensors = false;
  each_argument(node, [&](ValueId) { takes_tensors = true; });
  // Integer dtypes do not hold every number: some are errors.
  const bool real =
      std::all_of(tensors.begin(), tensors.end(), [](const Value& v) { return is_real(v.dtype); });
  may_vary = takes_tensors && real && (op->pointwise != nullptr || results.empty());
  // The gradient of an op meets positions that the op itself has met.
  may_raise = op->checks && !(row->internal &&
                              std::string_view(op->name).find("_grad") != std::string_view::npos);
  if (op->pointwise == nullptr || results.empty()) return;
  // A pointwise op may raise an error for a division of integers alone.
  const auto* one = std::get_if<ValueRef>(&results[0]);
  if (one != nullptr && one->id != kNone && is_real(tensors[one->id].dtype)) may_raise = false;
}

std::vector<const TraceStep*> path_to(const TraceStep& last) {
  std::vector<const TraceStep*> out;
  for (const TraceStep* s = &last; s->op != nullptr; s = s->parent) out.push_back(s);
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

// Writes the nodes of a part down, with a view where a tensor lies otherwise than the first one in
// its buffer.
class GraphWriter {
 public:
  explicit GraphWriter(PartGraph& out) : out_(out), graph_(out.graph) {}

  void add_buffers(const TraceStep& step) {
    for (const StepBuffer& each : step.made) {
      graph_.buffers.push_back(
          {each.is_external ? Buffer::Kind::Input : Buffer::Kind::Internal, Device(), each.bytes});
      by_buffer_.emplace_back();
    }
  }
  void add_node(const TraceStep& step, const std::vector<BoxedValue>* numbers) {
    Node node = node_of(step);
    size_t next = 0;
    for (Argument& a : node.arguments) {
      if (auto* one = std::get_if<ValueRef>(&a)) renumber(step, *one, true);
      if (auto* list = std::get_if<ValueRefs>(&a))
        for (ValueRef& each : *list) renumber(step, each, true);
      if (numbers != nullptr && is_number(a)) a = numbers->at(next++);
    }
    for (Result& r : node.results) {
      if (auto* one = std::get_if<ValueRef>(&r)) renumber(step, *one, false);
      if (auto* list = std::get_if<ValueRefs>(&r))
        for (ValueRef& each : *list) renumber(step, each, false);
    }
    if (numbers != nullptr) {
      node.numbers = static_cast<int32_t>(out_.varying.size());
      out_.varying.push_back(&step);
    }
    graph_.nodes.push_back(std::move(node));
  }
  // The first value of a buffer.
  ValueId base(BufferId b) const { return by_buffer_[b].empty() ? kNone : by_buffer_[b].front(); }

 private:
  void renumber(const TraceStep& step, ValueRef& ref, bool is_argument) {
    if (ref.id == kNone) return;
    const Value& v = step.tensors[ref.id];
    for (const ValueId each : by_buffer_[v.buffer])
      if (lies_alike(graph_.values[each], v)) {
        ref.id = each;
        return;
      }
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(v);
    ref.id = id;
    std::vector<ValueId>& known = by_buffer_[v.buffer];
    known.push_back(id);
    if (!is_argument) return;
    if (known.size() > 1) return add_view(known.front(), id);
    if (graph_.buffers[v.buffer].kind != Buffer::Kind::Input) return;
    graph_.inputs.push_back(id);
    out_.inputs.push_back(v.buffer);
  }
  void add_view(ValueId base, ValueId id) {
    const Value known = graph_.values[base], v = graph_.values[id];
    graph_.nodes.push_back(
        {find_raw_op("strided_view"),
         OpInfo::Form::Plain,
         {ValueRef{base}, BoxedValue(v.sizes), BoxedValue(v.strides), BoxedValue(v.offset),
          BoxedValue(known.strides), BoxedValue(known.offset)},
         {ValueRef{id}}});
  }
  static bool lies_alike(const Value& a, const Value& b) {
    return a.dtype == b.dtype && a.offset == b.offset && a.sizes == b.sizes &&
           a.strides == b.strides;
  }

  PartGraph& out_;
  Graph& graph_;
  std::vector<std::vector<ValueId>> by_buffer_;
};

}  // namespace

PartGraph graph_of(const TraceStep& last, const std::vector<bool>& wanted,
                   const std::vector<GivenNumbers>& numbers) {
  PartGraph out;
  GraphWriter writer(out);
  for (const TraceStep* step : path_to(last)) {
    writer.add_buffers(*step);
    if (step->gives_arguments) continue;
    const auto given = std::find_if(numbers.begin(), numbers.end(),
                                    [&](const GivenNumbers& each) { return each.step == step; });
    writer.add_node(*step, given == numbers.end() ? nullptr : &given->numbers);
  }
  for (size_t b = 0; b < wanted.size(); ++b) {
    if (!wanted[b]) continue;
    const ValueId base = writer.base(static_cast<BufferId>(b));
    check(base != kNone, "program: a part gives memory that it does not make");
    out.graph.outputs.push_back(base);
    out.outputs.push_back(static_cast<BufferId>(b));
  }
  return out;
}

}  // namespace moonlet::program
