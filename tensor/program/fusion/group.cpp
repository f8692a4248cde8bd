// tensor/program/fusion/group.cpp: finds groups: each node, in the order of the graph, joins what
// it shares elements with, where no node between the two is in the way.
#include "tensor/program/fusion/group.h"

#include <sstream>

#include "tensor/program/fusion/cluster.h"
#include "tensor/program/fusion/loop_builder.h"

namespace moonlet::program {

namespace {

// How many clusters back a node looks for ones to join.
constexpr int kWindow = 64;

class Grouping {
 public:
  explicit Grouping(const GraphUses& uses) : uses_(uses) {}

  void add(int32_t node) {
    clusters_.emplace_back(uses_, node);
    int at = static_cast<int>(clusters_.size()) - 1;
    while (at >= 0 && clusters_[at].is_loop()) at = join(at);
  }
  const std::vector<Cluster>& clusters() const { return clusters_; }

 private:
  // Joins a cluster with the last one before it that it can join, and returns where the two are; -1
  // where there is none.
  int join(int at) {
    bool can_rise = true;  // past all those between
    for (int q = at - 1; q >= 0 && q >= at - kWindow; --q) {
      if (clusters_[q].is_loop() && (can_rise || can_sink(q, at))) {
        if (std::optional<Cluster> both = clusters_[q].merged(clusters_[at])) {
          const int to = can_rise ? q : at, from = can_rise ? at : q;
          clusters_[to] = *std::move(both);
          clusters_.erase(clusters_.begin() + from);
          return can_rise ? q : at - 1;
        }
      }
      can_rise = can_rise && !clusters_[q].conflicts(clusters_[at]);
    }
    return -1;
  }

  bool can_sink(int from, int to) const {
    for (int i = from + 1; i < to; ++i)
      if (clusters_[i].conflicts(clusters_[from])) return false;
    return true;
  }

  const GraphUses& uses_;
  std::vector<Cluster> clusters_;
};

}  // namespace

std::vector<Group> group(const Graph& graph) { return group(GraphUses(graph)); }

std::vector<Group> group(const GraphUses& uses) {
  const Graph& graph = uses.graph;
  Grouping grouping(uses);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!is_view(graph.nodes[i])) grouping.add(static_cast<int32_t>(i));
  std::vector<Group> out;
  for (const Cluster& cluster : grouping.clusters()) {
    Group& made = out.emplace_back();
    made.nodes = cluster.nodes();
    if (made.nodes.size() == 1) continue;
    made.loop = build_loop(uses, made.nodes, cluster.extent(), made.slots);
  }
  return out;
}

std::string to_string(const Graph& graph, const std::vector<Group>& groups) {
  std::ostringstream out;
  for (const Group& each : groups) {
    const char* separator = "";
    for (const int32_t node : each.nodes) {
      out << separator << graph.nodes[node].op->name;
      separator = " ";
    }
    out << '\n';
    if (each.loop) out << to_string(*each.loop);
  }
  return out.str();
}

}  // namespace moonlet::program
