// tensor/program/passes/copies.cpp: drops copies whose source could have been used itself.
#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

class Copies {
 public:
  explicit Copies(Graph& graph)
      : graph_(graph),
        effects_(graph),
        standing_(graph),
        by_buffer_(values_by_buffer(graph)),
        touched_(graph.buffers.size()),
        dead_(graph.nodes.size()) {}

  bool run() {
    bool any = false;
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at) {
      standing_.apply(graph_.nodes[at]);
      any = drop(at) || any;
    }
    if (any) {
      standing_.apply_to_outputs(graph_);
      remove_nodes(graph_, dead_);
    }
    return any;
  }

 private:
  bool is_copy(const Node& node) const {
    const std::string_view name = node.op->name;
    return node.form == OpInfo::Form::Plain && (name == "clone" || name == "convert");
  }

  bool drop(int at) {
    const Node& node = graph_.nodes[at];
    if (!is_copy(node)) return false;
    const ValueId x = tensor_argument(node, 0), y = only_result(node);
    if (x == kNone || y == kNone) return false;
    const Value source = graph_.values[x], copy = graph_.values[y];
    // What is merged already is looked at again in the next round.
    if (touched_[source.buffer] || touched_[copy.buffer] || effects_.maker(copy.buffer) != at)
      return false;
    if (source.dtype != copy.dtype || !(source.sizes == copy.sizes) ||
        !(source.strides == copy.strides) ||
        graph_.buffers[source.buffer].device != graph_.buffers[copy.buffer].device)
      return false;
    if (!may_take_over(x, y, at) && !may_be_read(x, y, at)) return false;
    merge(x, y);
    return dead_[at] = true;
  }

  // The copy has the memory to itself from here on.
  bool may_take_over(ValueId x, ValueId y, int at) const {
    const BufferId from = graph_.values[x].buffer;
    return graph_.buffers[from].kind == Buffer::Kind::Internal && fills_buffer(graph_, x) &&
           fills_buffer(graph_, y) && effects_.last_access(from) == at;
  }
  // Neither is written while the copy is read.
  bool may_be_read(ValueId x, ValueId y, int at) const {
    const BufferId from = graph_.values[x].buffer, to = graph_.values[y].buffer;
    if (effects_.is_ever_written(to)) return false;
    if (effects_.holds_output(to) &&
        (graph_.buffers[from].kind != Buffer::Kind::Internal || effects_.holds_output(from) ||
         !fills_buffer(graph_, x) || !fills_buffer(graph_, y)))
      return false;
    return !effects_.is_written(x, at, effects_.last_access(to) + 1);
  }

  void merge(ValueId x, ValueId y) {
    const BufferId from = graph_.values[y].buffer, to = graph_.values[x].buffer;
    const Value source = graph_.values[x], copy = graph_.values[y];
    const auto size = static_cast<int64_t>(size_of(source.dtype));
    const int64_t moved = (source.offset - copy.offset) * size;  // bytes
    touched_[from] = touched_[to] = true;
    standing_.set(y, x);
    for (const ValueId id : by_buffer_[from]) {
      Value& each = graph_.values[id];
      each.buffer = to;
      each.offset += moved / static_cast<int64_t>(size_of(each.dtype));
    }
  }

  Graph& graph_;
  const Effects effects_;  // of before
  Substitution standing_;
  std::vector<std::vector<ValueId>> by_buffer_;
  std::vector<bool> touched_, dead_;
};

}  // namespace

bool drop_copies(Graph& graph) { return Copies(graph).run(); }

}  // namespace moonlet::program
