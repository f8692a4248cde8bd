// autograd/backward_observer.h: what a mode implements that wants to know which nodes backward
// runs.
#pragma once

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

}  // namespace moonlet
