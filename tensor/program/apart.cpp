// tensor/program/apart.cpp: the reasons, from what grouping asks for.
#include "tensor/program/apart.h"

#include <algorithm>
#include <string_view>

#include "tensor/program/describe.h"
#include "tensor/program/fusion/loop_node.h"
#include "tensor/program/fusion/strip_rows.h"

namespace moonlet::program {

namespace {

bool is_reduction(const Node& node) {
  const std::string_view schema = node.op->schema;
  return schema.find("bool keepdim") != std::string_view::npos;
}

// Of a pointwise op that is no loop.
const char* why_pointwise(const Graph& graph, const Node& node) {
  if (node.numbers != kNone) return "its numbers are others at each run";
  if (!loop_node(graph, node)) return "reads elements at other indices than it writes";
  return "shares no elements with an op that may run at the same time";
}

const char* why_apart(const Graph& graph, const Group& group) {
  const Node& node = graph.nodes[group.nodes.front()];
  bool host = true;
  each_result(node, [&](ValueId id) {
    host = host && graph.buffers[graph.values[id].buffer].device.is_cpu();
  });
  if (!host) return "no loops on its device";
  if (node.op->pointwise != nullptr) return why_pointwise(graph, node);
  if (is_product(node)) return "a product, by a kernel of its own";
  if (row_group(graph, group))
    return "its rows are read by nothing next to it, or fit a cache whole";
  if (is_reduction(node))
    return "over other than the last dimensions, in an order that depends on all rows";
  if (node.op->random) return "draws random numbers";
  if (node.form != OpInfo::Form::Plain) return "writes where it is told to";
  return "by a kernel of its own";
}

class Lines {
 public:
  void add(const std::string& what, const std::string& why) {
    const auto found = std::ranges::find_if(
        all_, [&](const Line& each) { return each.what == what && each.why == why; });
    if (found == all_.end())
      all_.push_back({what, why, 1});
    else
      ++found->count;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const Line& each : all_)
      out.push_back(each.what + (each.count > 1 ? " x" + std::to_string(each.count) : "") +
                    (each.why.empty() ? "" : ": " + each.why));
    return out;
  }

 private:
  struct Line {
    std::string what, why;
    int count;
  };
  std::vector<Line> all_;
};

std::string names_of(const Graph& graph, const Group& group) {
  std::string out;
  for (const int32_t node : group.nodes)
    out += std::string(out.empty() ? "" : " ") + graph.nodes[node].op->name;
  return out;
}

void add_loop(const Graph& graph, const Group& group, const LoopExecutor& executor, Lines& to) {
  if (executor.is_compiled()) return;
  to.add("loop of " + names_of(graph, group),
         "by blocks, as an op, a dtype or an operand has no machine code");
}

}  // namespace

std::vector<std::string> fused_of(const Plan& plan) {
  const Graph& graph = plan.graph();
  Lines lines;
  for (const Step& step : plan.steps()) {
    if (step.kind == Step::Kind::Loop)
      lines.add(names_of(graph, plan.loops()[step.loop].group), "");
    if (step.kind != Step::Kind::Strip) continue;
    const Strip& strip = plan.strips()[step.loop];
    std::string text;
    for (const StripPart& part : strip.parts) {
      const std::string names = names_of(graph, part.group);
      text += (text.empty() ? "" : " ") + (part.whole ? '(' + names + ')' : names);
    }
    lines.add(text + ", " + std::to_string(strip.step) + " of " + std::to_string(strip.rows) +
                  " rows at once",
              "");
  }
  return lines.lines();
}

std::vector<std::string> apart_of(const Plan& plan) {
  const Graph& graph = plan.graph();
  Lines reasons;
  for (const Step& step : plan.steps()) {
    if (step.kind == Step::Kind::Loop) {
      const LoopStep& loop = plan.loops()[step.loop];
      add_loop(graph, loop.group, *loop.executor, reasons);
    } else if (step.kind == Step::Kind::Strip) {
      for (const StripPart& part : plan.strips()[step.loop].parts)
        if (part.whole) add_loop(graph, part.group, *part.whole, reasons);
    } else {
      const Group one{{step.node}, std::nullopt, {}};
      reasons.add(graph.nodes[step.node].op->name, why_apart(graph, one));
    }
  }
  return reasons.lines();
}

}  // namespace moonlet::program
