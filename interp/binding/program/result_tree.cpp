// interp/binding/program/result_tree.cpp: results become outputs of a graph, and outputs results.
#include "interp/binding/program/result_tree.h"

#include <algorithm>

#include "autograd/history.h"
#include "interp/binding/program/value_tree.h"
#include "interp/binding/uses_result_tree.h"

namespace moonlet::binding {

using Reason = std::optional<std::string>;

namespace {

constexpr int kMostDepth = 32;

}  // namespace

struct ResultTree::Recording {
  lua_State* L;
  program::Capture& capture;
  const std::vector<Tensor>& inputs;
  const int anchors;
  Snapshot& snapshot;
  std::vector<const void*> tables{};
  std::vector<Tensor> tensors{};  // by output

  int input_of(const TensorImpl* tensor) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].impl() == tensor) return static_cast<int>(i);
    return -1;
  }
  program::Buffer::Kind kind_of(program::ValueId value) const {
    const program::Graph& graph = capture.graph();
    return graph.buffers[graph.values[value].buffer].kind;
  }
};

Reason ResultTree::record(lua_State* L, int first, int count, program::Capture& capture,
                          const std::vector<Tensor>& inputs, int anchors, Snapshot& snapshot) {
  Recording recording{L, capture, inputs, lua_absindex(L, anchors), snapshot};
  count_ = count;
  luaL_checkstack(L, 2 * kMostDepth + 8, "compile");
  for (int i = 0; i < count; ++i) {
    lua_pushvalue(L, first + i);
    Reason reason = record_value(recording, 0);
    lua_pop(L, 1);
    if (reason) return reason;
  }
  tensors_ = std::move(recording.tensors);
  return capture.stopped();
}

// The value lies on top.
Reason ResultTree::record_value(Recording& recording, int depth) {
  lua_State* L = recording.L;
  if (items_.size() > Snapshot::kMostValues || depth > kMostDepth)
    return "it returns a table of too many values";
  if (const Tensor* t = tensor_cell(L, -1)) {
    if (!t->defined()) return "it returns a tensor that was freed";
    return record_tensor(recording, *t);
  }
  const int type = lua_type(L, -1);
  if (type == LUA_TSTRING) {
    size_t length = 0;
    const char* bytes = lua_tolstring(L, -1, &length);
    items_.push_back({Item::Kind::Text, {}, std::string(bytes, length)});
    return {};
  }
  const PlainValue value = plain_value(L, -1);
  if (value.kind != PlainValue::Kind::Object) {
    items_.push_back({Item::Kind::Plain, value, {}});
    return {};
  }
  if (const int anchor = recording.snapshot.anchor_of(lua_topointer(L, -1))) {
    items_.push_back({Item::Kind::Kept, value, {}, anchor});
    return {};
  }
  if (type != LUA_TTABLE)
    return text("it returns a ", luaL_typename(L, -1), " that it may have made");
  return record_table(recording, depth);
}

Reason ResultTree::record_table(Recording& recording, int depth) {
  lua_State* L = recording.L;
  if (lua_getmetatable(L, -1) != 0) {
    lua_pop(L, 1);
    return "it returns an object that it may have made";
  }
  const void* const table = lua_topointer(L, -1);
  auto& tables = recording.tables;
  if (std::find(tables.begin(), tables.end(), table) != tables.end())
    return "it returns a table twice, or in itself";
  tables.push_back(table);
  const size_t at = items_.size();
  items_.push_back({Item::Kind::Table, {}, {}});
  const auto length = static_cast<int32_t>(lua_rawlen(L, -1));
  int32_t pairs = 0;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    ++pairs;
    lua_pushvalue(L, -2);
    if (tensor_cell(L, -1) != nullptr) return "it returns a table with a tensor as a key";
    Reason reason = record_value(recording, depth + 1);
    lua_pop(L, 1);
    if (!reason) reason = record_value(recording, depth + 1);
    if (reason) return reason;
    lua_pop(L, 1);
  }
  items_[at].array = length;
  items_[at].hash = std::max(pairs - length, 0);
  items_.push_back({Item::Kind::End, {}, {}});
  return {};
}

Reason ResultTree::record_tensor(Recording& recording, const Tensor& t) {
  lua_State* L = recording.L;
  recorded_ = recorded_ || t.requires_grad();
  if (const int input = recording.input_of(t.impl()); input >= 0) {
    items_.push_back({Item::Kind::Input, {}, {}, input});
    return {};
  }
  // Made of numbers by the script, and never by an op.
  const bool reached = recording.snapshot.reaches(t.impl());
  if (reached) {
    lua_pushvalue(L, -1);
    items_.push_back({Item::Kind::Kept, plain_value(L, -2), {}, 0});
    items_.back().index = recording.snapshot.keep(L, recording.anchors);
    return {};
  }
  const int32_t known =
      static_cast<int32_t>(std::find_if(recording.tensors.begin(), recording.tensors.end(),
                                        [&](const Tensor& each) { return each.is_same(t); }) -
                           recording.tensors.begin());
  if (known == static_cast<int32_t>(recording.tensors.size())) output_of(recording, t);
  ++outputs_[known].uses;
  items_.push_back({Item::Kind::Output, {}, {}, known});
  return note_base(recording, t, known);
}

// A new output of the graph.
int32_t ResultTree::output_of(Recording& recording, const Tensor& t) {
  recording.capture.add_output(t);
  const program::ValueId value = recording.capture.graph().outputs.back();
  Output output{output_count_++};
  output.copied = recording.kind_of(value) != program::Buffer::Kind::Internal;
  outputs_.push_back(output);
  recording.tensors.push_back(t);
  return static_cast<int32_t>(outputs_.size()) - 1;
}

Reason ResultTree::note_base(Recording& recording, const Tensor& t, size_t at) {
  const program::Graph& graph = recording.capture.graph();
  const program::ValueId value = graph.outputs[outputs_[at].output];
  const program::BufferId buffer = graph.values[value].buffer;
  if (graph.buffers[buffer].kind == program::Buffer::Kind::Parameter) {
    bool reached = false;
    for (const program::Parameter& p : graph.parameters)
      if (graph.values[p.value].buffer == buffer)
        reached = reached || recording.snapshot.reaches(p.tensor.impl());
    if (!reached) return "it returns a tensor that it makes of numbers of Lua";
  }
  const AutogradMeta* meta = meta_of(t);
  if (meta == nullptr || meta->base == nullptr || outputs_[at].base != Output::Base::None)
    return {};
  if (meta->view.restrided || meta->view.of_function)
    return "it returns a view whose shape was changed in place";
  const auto shares_base = [&](const Tensor& other) {
    const AutogradMeta* of = meta_of(other);
    return other.impl() == meta->base || (of != nullptr && of->base == meta->base);
  };
  for (size_t i = 0; i < recording.inputs.size(); ++i) {
    if (!shares_base(recording.inputs[i]) || recording.inputs[i].dtype() != t.dtype()) continue;
    outputs_[at].base = Output::Base::Input;
    outputs_[at].base_index = static_cast<int32_t>(i);
    return {};
  }
  const Tensor& base = meta->view.base;
  if (base.dtype() != t.dtype()) return "it returns a tensor looked at as another dtype";
  if (graph.buffers[buffer].kind == program::Buffer::Kind::Parameter) {
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      if (!shares_base(graph.parameters[i].tensor)) continue;
      outputs_[at].base = Output::Base::Kept;
      outputs_[at].base_index = static_cast<int32_t>(i);
      return {};
    }
    return "it returns a view of a tensor that its guards do not reach";
  }
  if (!recording.capture.knows(base)) return "it returns a view of a tensor that no op made";
  const auto known = std::find_if(recording.tensors.begin(), recording.tensors.end(),
                                  [&](const Tensor& each) { return each.is_same(base); });
  const auto index = static_cast<int32_t>(known - recording.tensors.begin());
  outputs_[at].base = Output::Base::Output;
  outputs_[at].base_index = known != recording.tensors.end() ? index : output_of(recording, base);
  return {};
}

bool ResultTree::has_numbers() const {
  return std::any_of(items_.begin(), items_.end(), [](const Item& item) {
    return item.value.kind == PlainValue::Kind::Integer ||
           item.value.kind == PlainValue::Kind::Number;
  });
}

// Whether there is nothing but a tensor of memory of its own, as most functions return.
bool ResultTree::is_one_tensor() const {
  return items_.size() == 1 && items_[0].kind == Item::Kind::Output && outputs_.size() == 1 &&
         !outputs_[0].copied && outputs_[0].base == Output::Base::None;
}

// --- back ----------------------------------------------------------------------------------------

struct ResultTree::Pushing {
  lua_State* L;
  int anchors, first, count;
  const std::vector<Tensor>& inputs;
  std::vector<Tensor>& tensors;
  std::vector<int32_t>& left;  // how often each is still to be pushed
};

int ResultTree::push(lua_State* L, int anchors, int first, int count,
                     const std::vector<Tensor>& inputs, const program::Graph* graph,
                     std::vector<Tensor>& outputs) const {
  anchors = lua_absindex(L, anchors);
  luaL_checkstack(L, count_ + 2 * kMostDepth + 8, "too many results");
  if (is_one_tensor()) return push_result(L, std::move(outputs[outputs_[0].output]));
  std::vector<Tensor> tensors(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Tensor& made = outputs[outputs_[i].output];
    tensors[i] = graph && outputs_[i].copied ? shallow_copy(made) : std::move(made);
  }
  for (size_t i = 0; graph && i < outputs_.size(); ++i) note_view_of(i, tensors, inputs, *graph);
  std::vector<int32_t> left(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) left[i] = outputs_[i].uses;
  size_t at = 0;
  Pushing pushing{L, anchors, first, count, inputs, tensors, left};
  for (int i = 0; i < count_; ++i) push_value(pushing, at);
  return count_;
}

void ResultTree::note_view_of(size_t at, const std::vector<Tensor>& tensors,
                              const std::vector<Tensor>& inputs,
                              const program::Graph& graph) const {
  const Output& output = outputs_[at];
  const Tensor* base = nullptr;
  switch (output.base) {
    case Output::Base::None: return;
    case Output::Base::Input: base = &inputs[output.base_index]; break;
    case Output::Base::Output: base = &tensors[output.base_index]; break;
    case Output::Base::Kept: base = &graph.parameters[output.base_index].tensor; break;
  }
  const Tensor& made = tensors[at];
  note_view(made, *base,
            [sizes = made.sizes(), strides = made.strides(), offset = made.offset(),
             base_strides = base->strides(), base_offset = base->offset()](const Tensor& x) {
              return strided_view(x, sizes, strides, offset, base_strides, base_offset);
            });
}

void ResultTree::push_value(Pushing& p, size_t& at) const {
  lua_State* L = p.L;
  const Item& item = items_[at++];
  switch (item.kind) {
    case Item::Kind::Plain: push_plain(L, item.value); return;
    case Item::Kind::Text: lua_pushlstring(L, item.text.data(), item.text.size()); return;
    case Item::Kind::Input:
      ArgumentTree::push_holder(L, p.first, p.count, p.inputs[item.index].impl());
      return;
    case Item::Kind::Output: {
      Tensor& made = p.tensors[item.index];
      // The last handle goes to the script: one that nobody else holds is quicker to push.
      if (--p.left[item.index] == 0)
        push_result(L, std::move(made));
      else
        push_result(L, made);
      return;
    }
    case Item::Kind::Kept: lua_rawgeti(L, p.anchors, item.index); return;
    case Item::Kind::Table:
      lua_createtable(L, item.array, item.hash);
      while (items_[at].kind != Item::Kind::End) {
        push_value(p, at);
        push_value(p, at);
        lua_rawset(L, -3);
      }
      ++at;
      return;
    case Item::Kind::End: return;
  }
}

void ResultTree::push_plain(lua_State* L, const PlainValue& value) {
  using Kind = PlainValue::Kind;
  switch (value.kind) {
    case Kind::False: lua_pushboolean(L, 0); return;
    case Kind::True: lua_pushboolean(L, 1); return;
    case Kind::Integer: lua_pushinteger(L, static_cast<lua_Integer>(value.bits)); return;
    case Kind::Number: lua_pushnumber(L, std::bit_cast<double>(value.bits)); return;
    default: lua_pushnil(L); return;
  }
}

}  // namespace moonlet::binding
