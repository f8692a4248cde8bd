// tensor/program/fusion/cluster.h: nodes that are to run together, while groups are found: what
// they read and write, and whether two clusters can be one loop.
#pragma once

#include "tensor/program/fusion/loop_node.h"

namespace moonlet::program {

// What grouping knows of a graph.
struct GraphUses {
  explicit GraphUses(const Graph& graph);
  const Graph& graph;
  std::vector<std::optional<LoopNode>> loop_nodes;  // by node
  std::vector<int> users;                           // by buffer: nodes that are no views
  std::vector<bool> stays;                          // by buffer: memory that is seen afterwards
};

// A loop's nodes, or one node that runs by itself.
class Cluster {
 public:
  struct Access {
    Elements elements;  // over `extent`, of a loop's nodes
    bool is_write;
  };

  Cluster(const GraphUses& uses, int32_t node);

  // Whether the order of the two counts.
  bool conflicts(const Cluster& other) const;
  // Both as one cluster, in the order of the graph: where they share elements, all of what one
  // writes and the other uses is the same at the same index, and the loop stays within its limits.
  std::optional<Cluster> merged(const Cluster& other) const;

  bool is_loop() const { return is_loop_; }
  const std::vector<int32_t>& nodes() const { return nodes_; }
  const Extent& extent() const { return extent_; }

 private:
  void add_access(const Elements& elements, bool is_write);
  bool shares_elements(const Cluster& other) const;
  void refine_to(const Extent& extent);

  const GraphUses* uses_;
  std::vector<int32_t> nodes_;
  bool is_loop_ = false;
  Device device_;
  Extent extent_;
  std::vector<Access> accesses_;        // each once
  uint64_t touched_ = 0, written_ = 0;  // buffers, by bits that several share
};

}  // namespace moonlet::program
