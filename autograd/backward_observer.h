// autograd/backward_observer.h: what a mode implements that wants to know which nodes backward
// runs.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensor/runtime/modes.h"

namespace moonlet {

class Node;

// A mode of this kind that is on the stack when backward begins is told of each node.
class BackwardObserver {
 public:
  virtual void begin(const Node& node) = 0;
  // The node that began last has ended, also by an error.
  virtual void end() noexcept = 0;

 protected:
  ~BackwardObserver() = default;
};

// The modes that want to know of the nodes that run. They may be taken off while they do.
class BackwardObservers {
 public:
  BackwardObservers() {
    for (const ModeEntry* entry = execution.modes; entry; entry = entry->below)
      if (auto* found = dynamic_cast<BackwardObserver*>(entry->mode.get()))
        all_.push_back({entry->mode, found});
  }

  // Tells them of a node for a C++ scope.
  class Scope {
   public:
    Scope(const BackwardObservers& observers, const Node& node) : observers_(observers) {
      for (const auto& [mode, observer] : observers_.all_) observer->begin(node);
    }
    ~Scope() {
      for (const auto& [mode, observer] : observers_.all_) observer->end();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const BackwardObservers& observers_;
  };

 private:
  std::vector<std::pair<std::shared_ptr<Mode>, BackwardObserver*>> all_;
};

}  // namespace moonlet
