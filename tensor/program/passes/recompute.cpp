// tensor/program/passes/recompute.cpp: chooses the saved values, and moves their nodes.
#include "tensor/program/passes/recompute.h"

#include <algorithm>
#include <unordered_map>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

class Recomputed {
 public:
  Recomputed(Graph& forward, Graph& backward, std::vector<SavedValue>& saved)
      : forward_(forward),
        backward_(backward),
        saved_(saved),
        made_(forward),
        used_(backward),
        goes_(saved.size()) {
    for (const SavedValue& each : saved)
      taken_as_.emplace(forward.outputs[each.output], backward.inputs[each.input]);
  }

  bool run() {
    std::vector<size_t> order(saved_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // Those first that others may be made of.
    std::ranges::sort(order, {}, [&](size_t i) { return made_.giver(value(i)); });
    bool any = false;
    for (const size_t i : order)
      if (may_go(i)) goes_[i] = any = true;
    if (!any) return false;
    insert_nodes();
    drop_positions();
    drop_dead_code(forward_);
    return true;
  }

 private:
  ValueId value(size_t i) const { return forward_.outputs[saved_[i].output]; }
  ValueId input(size_t i) const { return backward_.inputs[saved_[i].input]; }

  bool may_go(size_t i) const {
    const ValueId id = value(i);
    const int at = made_.giver(id);
    const BufferId buffer = forward_.values[id].buffer;
    if (at == kNone || made_.maker(buffer) != at || made_.is_ever_written(buffer)) return false;
    const Node& node = forward_.nodes[at];
    if (node.op->pointwise == nullptr || !is_pure(forward_, node) || only_result(node) != id ||
        outputs_on(buffer) != 1 || !is_alone(input(i)) ||
        !same_geometry(forward_.values[id], backward_.values[input(i)]))
      return false;
    const int end = static_cast<int>(forward_.nodes.size());
    bool known = true, any = false;
    each_argument(node, [&](ValueId x) {
      const auto taken = taken_as_.find(x);
      any = true;
      known = known && taken != taken_as_.end() && !made_.is_written(x, at, end) &&
              !used_.is_ever_written(backward_.values[taken->second].buffer);
    });
    return known && any && !used_.users(input(i)).empty();
  }

  int outputs_on(BufferId buffer) const {
    return static_cast<int>(std::ranges::count_if(
        forward_.outputs, [&](ValueId id) { return forward_.values[id].buffer == buffer; }));
  }
  // Whether an input is all that backward is given of its memory, which it neither writes nor
  // gives.
  bool is_alone(ValueId id) const {
    const BufferId buffer = backward_.values[id].buffer;
    const auto on = [&](ValueId other) { return backward_.values[other].buffer == buffer; };
    return std::ranges::count_if(backward_.inputs, on) == 1 && !used_.is_ever_written(buffer) &&
           !used_.holds_output(buffer) && fills_buffer(backward_, id);
  }

  int32_t line(int32_t of) {
    if (of == kNone) return kNone;
    const std::string& text = forward_.lines[of];
    const auto found = std::ranges::find(backward_.lines, text);
    const auto at = static_cast<int32_t>(found - backward_.lines.begin());
    if (found == backward_.lines.end()) backward_.lines.push_back(text);
    return at;
  }

  // Puts a value's node, and before it those of values that it needs, in front of its first user.
  void put_node(size_t i, std::vector<Node>& out) {
    if (is_put_[i]) return;
    is_put_[i] = true;
    Node node = forward_.nodes[made_.giver(value(i))];
    each_argument(node, [&](ValueId x) {
      for (size_t k = 0; k < saved_.size(); ++k)
        if (goes_[k] && value(k) == x) put_node(k, out);
    });
    for (Argument& each : node.arguments)
      if (auto* ref = std::get_if<ValueRef>(&each); ref != nullptr && ref->id != kNone)
        ref->id = taken_as_.at(ref->id);
    node.results = {ValueRef{input(i)}};
    node.line = line(node.line);
    backward_.buffers[backward_.values[input(i)].buffer].kind = Buffer::Kind::Internal;
    out.push_back(std::move(node));
  }

  void insert_nodes() {
    is_put_.resize(saved_.size());
    std::vector<Node> out;
    for (int at = 0; at < static_cast<int>(backward_.nodes.size()); ++at) {
      for (size_t i = 0; i < saved_.size(); ++i)
        if (goes_[i] && used_.users(input(i)).front() == at) put_node(i, out);
      out.push_back(std::move(backward_.nodes[at]));
    }
    backward_.nodes = std::move(out);
  }

  void drop_positions() {
    std::vector<int> outputs, inputs;
    std::vector<SavedValue> kept;
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (!goes_[i]) {
        kept.push_back(saved_[i]);
        continue;
      }
      outputs.push_back(saved_[i].output);
      inputs.push_back(saved_[i].input);
    }
    for (SavedValue& each : kept) {
      const auto below = [](const std::vector<int>& all, int limit) {
        return static_cast<int>(std::ranges::count_if(all, [&](int x) { return x < limit; }));
      };
      each.output -= below(outputs, each.output);
      each.input -= below(inputs, each.input);
    }
    const auto drop = [](std::vector<ValueId>& ids, std::vector<int>& positions) {
      std::ranges::sort(positions, std::ranges::greater());
      for (const int at : positions) ids.erase(ids.begin() + at);
    };
    drop(forward_.outputs, outputs);
    drop(backward_.inputs, inputs);
    saved_ = std::move(kept);
  }

  Graph &forward_, &backward_;
  std::vector<SavedValue>& saved_;
  const Effects made_, used_;                      // of forward and backward as they were
  std::unordered_map<ValueId, ValueId> taken_as_;  // of forward's values, those of backward
  std::vector<bool> goes_, is_put_;                // by saved value
};

}  // namespace

bool recompute(Graph& forward, Graph& backward, std::vector<SavedValue>& saved) {
  return Recomputed(forward, backward, saved).run();
}

}  // namespace moonlet::program
