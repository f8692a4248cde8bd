// interp/binding/program/value_tree.h: arguments of a call as they were: numbers, strings and
// tables by value, tensors by what a program depends on, other objects by identity.
#pragma once

#include <string>
#include <vector>

#include "interp/binding/program/snapshot.h"

namespace moonlet::binding {

class ArgumentTree {
 public:
  // Notes the `count` values from stack index `first` on. Objects among them (with a metatable, or
  // functions) are walked by the snapshot. False when there is too much.
  bool record(lua_State* L, int first, int count, int anchors, Snapshot& snapshot);
  // Of the snapshot when it is whole: tensors that share memory with what it reaches are known by
  // identity.
  void pin(const Snapshot& snapshot);
  // From now on the position of a tensor in its storage counts too.
  void pin_offset(size_t input) { inputs_[input].fixed_offset = true; }

  // Whether the values from `first` on are as those were; `inputs` gets the tensors, each once.
  bool matches(lua_State* L, int first, int count, const Snapshot& snapshot,
               std::vector<Tensor>& inputs);
  // What `matches` found different: "argument 2".
  std::string different() const;
  // Whether sizes alone were different.
  bool only_sizes() const { return only_sizes_; }

  // Whether it is another but for the sizes and strides of tensors, none of which must be a certain
  // one or lie at a certain position.
  bool same_but_sizes(const ArgumentTree& other) const;

  // The tensors, each once, in the order in which `matches` finds them.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Drops them.
  void release() { tensors_.clear(); }
  // Pushes the value among those from `first` on that holds the tensor; false when there is none.
  static bool push_holder(lua_State* L, int first, int count, const TensorImpl* tensor);

 private:
  struct Item {
    PlainValue value;
    enum class Kind : uint8_t { Plain, Tensor, Table, TableAgain, End } kind = Kind::Plain;
    int32_t index = 0;  // of a tensor into inputs_, of a table again into the tables so far
    bool operator==(const Item&) const = default;
  };
  struct Input {
    DType dtype;
    Device device;
    bool requires_grad, has_gradient;
    bool fixed_offset = false;
    int64_t offset;
    Dims sizes, strides;
    int32_t shares = 0;                  // the first input on the same storage, maybe itself
    const TensorImpl* pinned = nullptr;  // must be this one
  };
  struct Reading;
  bool record_value(lua_State* L, int anchors, Snapshot& snapshot, int depth);
  bool match_value(lua_State* L, size_t& at, Reading& reading);
  bool match_table(lua_State* L, size_t& at, Reading& reading);
  bool fits(const Input& input, const Tensor& t);

  std::vector<Item> items_;
  std::vector<Input> inputs_;
  std::vector<Tensor> tensors_;
  std::vector<const void*> tables_;  // of the call that is read
  int count_ = 0;
  int at_argument_ = 0;
  bool only_sizes_ = false;
};

}  // namespace moonlet::binding
