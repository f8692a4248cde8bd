// autograd/leaf_uses.h: how many edges lead to each leaf that has hooks behind its gradient. With
// them a backward gives such a leaf its gradient as soon as that is whole: the leaf's node may be
// as old as an earlier graph that still lives, and its turn come last.
#pragma once

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <vector>

#include "autograd/node.h"

namespace moonlet {

class LeafUses {
 public:
  // Whether any leaf of the process has had such hooks: only then are they looked for.
  static std::atomic<bool> any_hooks;

  LeafUses() = default;
  explicit LeafUses(const std::vector<Node*>& nodes) {
    for (const Node* node : nodes)
      for (const Edge& edge : node->edges)
        if (edge && has_hooks(*edge.node)) ++left_[edge.node.get()];
  }

  // Calls `f` with each leaf to which the node's edges, now that it has run, were the last ones.
  template <class F>
  void note(const Node& ran, F f) {
    if (left_.empty()) return;
    for (const Edge& edge : ran.edges) {
      const auto found = left_.find(edge.node.get());
      if (found == left_.end() || --found->second > 0) continue;
      left_.erase(found);
      f(*edge.node);
    }
  }

 private:
  bool has_hooks(Node& node) const {
    if (left_.contains(&node)) return true;
    if (!node.hooks || node.hooks->empty()) return false;
    const std::vector<HookList::Entry> entries = node.hooks->entries();
    return std::any_of(entries.begin(), entries.end(),
                       [](const HookList::Entry& entry) { return bool{entry.after}; });
  }

  std::unordered_map<Node*, int> left_;
};

}  // namespace moonlet
