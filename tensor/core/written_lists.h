// tensor/core/written_lists.h: the lists of tensors that one op is about to write, such as all
// parameters of an optimiser: the checks of dispatch.h for hundreds of tensors at once.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tensor/core/memory_overlap.h"
#include "tensor/core/tensor.h"

namespace moonlet {

class WrittenLists {
 public:
  using Lists = std::initializer_list<std::pair<const char*, const std::vector<Tensor>*>>;
  // The lists with the names of their arguments; undefined tensors are left out. Throws when one
  // may not be written, or two share memory.
  WrittenLists(const char* op, Lists lists);
  // What the op reads, or a copy of it, made in `copy`, where it shares memory with what is
  // written.
  const Tensor& unshared(const Tensor& x, Tensor& copy) const;
  const std::vector<Tensor>& unshared(const std::vector<Tensor>& list,
                                      std::vector<Tensor>& copy) const;
  // Notes that all of them are changed.
  void mark_changed() const;

 private:
  struct Position {
    ByteSpan span;
    const Tensor* tensor;
  };
  bool meets(const Tensor& x) const;
  void check_apart() const;

  const char* op_;
  std::vector<Position> positions_;  // by where they begin; those of no element are not in it
  std::vector<const char*> ends_;    // for each the furthest end so far
  std::vector<const Tensor*> all_;
};

}  // namespace moonlet
