// tensor/program/passes/common_subexpressions.cpp: one node for those that compute the same of the
// same elements.
#include <algorithm>
#include <unordered_map>

#include "tensor/program/passes/effects.h"
#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"

namespace moonlet::program {

namespace {

// What is computed twice with more bytes than this and an end in between stays so: who wrote it,
// as a checkpoint does, would rather compute than keep it.
constexpr int64_t kKeptBytes = int64_t{64} << 10;

// Whether the node does nothing but give new memory that nobody writes to.
bool is_candidate(const Graph& graph, const Effects& effects, int at) {
  const Node& node = graph.nodes[at];
  if (node.form != OpInfo::Form::Plain || node.op->random || is_view(node) || node.numbers != kNone)
    return false;
  bool fit = !node.results.empty();
  each_written(node, [&](ValueId) { fit = false; });
  each_result(node, [&](ValueId id) {
    const BufferId buffer = graph.values[id].buffer;
    fit = fit && effects.maker(buffer) == at && effects.giver(id) == at &&
          !effects.is_ever_written(buffer);
  });
  return fit;
}

size_t hash_of(const Node& node) {
  size_t out = std::hash<const void*>()(node.op);
  each_argument(node, [&](ValueId id) { out = out * 31 + static_cast<size_t>(id); });
  return out;
}

class Merger {
 public:
  explicit Merger(Graph& graph)
      : graph_(graph),
        effects_(graph),
        standing_(graph),
        by_buffer_(values_by_buffer(graph)),
        holds_output_(graph.buffers.size()),
        last_(graph.buffers.size()),
        dead_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.buffers.size(); ++i) {
      last_[i] = effects_.last_access(static_cast<BufferId>(i));
      holds_output_[i] = effects_.holds_output(static_cast<BufferId>(i));
    }
  }

  bool run() {
    for (int at = 0; at < static_cast<int>(graph_.nodes.size()); ++at) {
      Node& node = graph_.nodes[at];
      standing_.apply(node);
      if (!is_candidate(graph_, effects_, at)) continue;
      const size_t hash = hash_of(node);
      if (!merge(at, hash)) earlier_.emplace(hash, at);
    }
    if (any_) {
      standing_.apply_to_outputs(graph_);
      remove_nodes(graph_, dead_);
    }
    return any_;
  }

 private:
  bool merge(int at, size_t hash) {
    const auto [first, last] = earlier_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (!is_same(it->second, at)) continue;
      std::vector<ValueId> from, to;
      each_result(graph_.nodes[at], [&](ValueId id) { from.push_back(id); });
      each_result(graph_.nodes[it->second], [&](ValueId id) { to.push_back(id); });
      for (size_t i = 0; i < from.size(); ++i) replace(from[i], to[i]);
      return dead_[at] = any_ = true;
    }
    return false;
  }

  bool is_same(int a, int b) const {
    const Node &x = graph_.nodes[a], &y = graph_.nodes[b];
    if (x.op != y.op || x.arguments.size() != y.arguments.size() ||
        x.results.size() != y.results.size())
      return false;
    for (size_t i = 0; i < x.arguments.size(); ++i)
      if (!same_argument(x.arguments[i], y.arguments[i])) return false;
    bool same = true;
    each_argument(x, [&](ValueId id) { same = same && !effects_.is_written(id, a, b); });
    each_result(x, [&](ValueId id) {
      const BufferId buffer = graph_.values[id].buffer;
      same = same && (last_[buffer] >= b || graph_.buffers[buffer].bytes <= kKeptBytes);
    });
    return same && results_match(x, y);
  }

  bool results_match(const Node& x, const Node& y) const {
    std::vector<ValueId> p, q;
    each_result(x, [&](ValueId id) { p.push_back(id); });
    each_result(y, [&](ValueId id) { q.push_back(id); });
    if (p.size() != q.size()) return false;
    for (size_t i = 0; i < p.size(); ++i) {
      const Value &a = graph_.values[p[i]], &b = graph_.values[q[i]];
      // Outputs are tensors of their own, which their users may write to.
      if (!same_geometry(a, b) || (holds_output_[a.buffer] && holds_output_[b.buffer]))
        return false;
    }
    return true;
  }

  void replace(ValueId from, ValueId to) {
    standing_.set(from, to);
    const BufferId old = graph_.values[from].buffer, now = graph_.values[to].buffer;
    holds_output_[now] = holds_output_[now] || holds_output_[old];
    last_[now] = std::max(last_[now], last_[old]);
    for (const ValueId id : by_buffer_[old]) {
      graph_.values[id].buffer = now;
      by_buffer_[now].push_back(id);
    }
    by_buffer_[old].clear();
  }

  Graph& graph_;
  const Effects effects_;  // of before; neither memory that is merged is ever written
  Substitution standing_;
  std::vector<std::vector<ValueId>> by_buffer_;
  std::vector<bool> holds_output_;
  std::vector<int> last_;  // access of each buffer
  std::vector<bool> dead_;
  std::unordered_multimap<size_t, int> earlier_;
  bool any_ = false;
};

}  // namespace

bool merge_common(Graph& graph) { return Merger(graph).run(); }

}  // namespace moonlet::program
