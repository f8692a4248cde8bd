// interp/binding/program/result_tree.h: what a function returned while it was captured, and making
// the same of a program's outputs: numbers, strings and tables as they were, tensors anew or, where
// the function gave back what it was given, those.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interp/binding/program/snapshot.h"
#include "tensor/program/capture.h"

namespace moonlet::binding {

class ResultTree {
 public:
  // Notes the `count` values from stack index `first` on and makes their tensors outputs of the
  // graph. Returns why a program could not return them, or nothing.
  std::optional<std::string> record(lua_State* L, int first, int count, program::Capture& capture,
                                    const std::vector<Tensor>& inputs, int anchors,
                                    Snapshot& snapshot);
  bool operator==(const ResultTree& other) const {
    return items_ == other.items_ && outputs_ == other.outputs_ && recorded_ == other.recorded_;
  }
  // Whether the tape recorded one of them, for gradients.
  bool recorded() const { return recorded_; }
  // Whether a number is among them.
  bool has_numbers() const;
  // The tensors that became outputs, in their order, until they are dropped.
  std::vector<Tensor>& tensors() { return tensors_; }

  // Pushes the values. The arguments of the call lie from `first` on, `inputs` are their tensors.
  // Returns their number. Where there is no graph, the outputs are as they are to be returned.
  int push(lua_State* L, int anchors, int first, int count, const std::vector<Tensor>& inputs,
           const program::Graph* graph, std::vector<Tensor>& outputs) const;

 private:
  struct Item {
    enum class Kind : uint8_t { Plain, Text, Input, Output, Kept, Table, End } kind = Kind::Plain;
    PlainValue value;
    std::string text;
    int32_t index = 0;            // of an input, an output, an anchor
    int32_t array = 0, hash = 0;  // sizes of a table
    bool operator==(const Item& other) const {
      // The anchors of two captures are numbered apart.
      return kind == other.kind && value == other.value && text == other.text &&
             (kind == Kind::Kept || index == other.index) && array == other.array &&
             hash == other.hash;
    }
  };
  // A tensor that is made by each run.
  struct Output {
    int32_t output = 0;   // of the graph
    int32_t uses = 0;     // how often it is returned
    bool copied = false;  // a handle of its own on an input or a parameter
    // Of a view: what it is a view of.
    enum class Base : uint8_t { None, Input, Output, Kept } base = Base::None;
    int32_t base_index = 0;
    bool operator==(const Output&) const = default;
  };
  bool is_one_tensor() const;
  struct Recording;
  std::optional<std::string> record_value(Recording& recording, int depth);
  std::optional<std::string> record_table(Recording& recording, int depth);
  std::optional<std::string> record_tensor(Recording& recording, const Tensor& t);
  std::optional<std::string> note_base(Recording& recording, const Tensor& t, size_t at);
  int32_t output_of(Recording& recording, const Tensor& t);
  struct Pushing;
  void push_value(Pushing& pushing, size_t& at) const;
  static void push_plain(lua_State* L, const PlainValue& value);
  void note_view_of(size_t at, const std::vector<Tensor>& tensors,
                    const std::vector<Tensor>& inputs, const program::Graph& graph) const;

  std::vector<Item> items_;
  std::vector<Output> outputs_;
  int count_ = 0;
  int output_count_ = 0;  // of the graph
  bool recorded_ = false;
  std::vector<Tensor> tensors_;
};

}  // namespace moonlet::binding
