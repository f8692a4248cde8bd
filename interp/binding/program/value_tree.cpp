// interp/binding/program/value_tree.cpp: notes arguments in the order of a walk, and compares those
// of another call in the same walk.
#include "interp/binding/program/value_tree.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/meta.h"

namespace moonlet::binding {
namespace {

constexpr int kMostDepth = 32;
// Up to so many tensors are compared one by one.
constexpr size_t kFew = 24;

bool is_plain_table(lua_State* L, int index) {
  if (!lua_istable(L, index)) return false;
  if (lua_getmetatable(L, index) == 0) return true;
  lua_pop(L, 1);
  return false;
}

bool has_gradient(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta != nullptr && meta->grad.defined();
}

// How far a tensor lies from where it lay, in bytes.
int64_t shift(const Tensor& t, int64_t offset) {
  return (t.offset() - offset) * static_cast<int64_t>(size_of(t.dtype()));
}

// For each tensor the first one on the same storage.
std::vector<int32_t> sharing(const std::vector<Tensor>& tensors) {
  std::vector<int32_t> out(tensors.size());
  std::unordered_map<const Storage*, int32_t> first;
  for (size_t i = 0; i < tensors.size(); ++i)
    out[i] = first.emplace(&tensors[i].storage(), static_cast<int32_t>(i)).first->second;
  return out;
}

}  // namespace

// What one call of `matches` has found.
struct ArgumentTree::Reading {
  std::vector<Tensor>& inputs;
};

bool ArgumentTree::record(lua_State* L, int first, int count, int anchors, Snapshot& snapshot) {
  count_ = count;
  luaL_checkstack(L, 2 * kMostDepth + 8, "compile");
  for (int i = 0; i < count; ++i) {
    lua_pushvalue(L, first + i);
    const bool fits = record_value(L, anchors, snapshot, 0);
    lua_pop(L, 1);
    if (!fits) return false;
  }
  tables_.clear();
  const std::vector<int32_t> shares = sharing(tensors_);
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].shares = shares[i];
  return true;
}

// The value lies on top.
bool ArgumentTree::record_value(lua_State* L, int anchors, Snapshot& snapshot, int depth) {
  if (items_.size() > Snapshot::kMostValues || depth > kMostDepth) return false;
  const PlainValue value = plain_value(L, -1);
  if (const Tensor* t = tensor_cell(L, -1)) {
    if (!t->defined()) return false;
    const auto known = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const Tensor& each) { return each.is_same(*t); });
    items_.push_back({{}, Item::Kind::Tensor, static_cast<int32_t>(known - tensors_.begin())});
    if (known != tensors_.end()) return true;
    tensors_.push_back(*t);
    inputs_.push_back({t->dtype(), t->device(), t->requires_grad(), has_gradient(*t), false,
                       t->offset(), t->sizes(), t->strides()});
    return true;
  }
  if (!is_plain_table(L, -1)) {
    items_.push_back({value, Item::Kind::Plain});
    if (value.kind == PlainValue::Kind::String || value.kind == PlainValue::Kind::Object) {
      lua_pushvalue(L, -1);
      snapshot.keep(L, anchors);
    }
    return value.kind != PlainValue::Kind::Object ||
           snapshot.add(L, anchors, lua_gettop(L), text("argument ", items_.size()));
  }
  const void* const table = lua_topointer(L, -1);
  const auto again = std::find(tables_.begin(), tables_.end(), table);
  if (again != tables_.end()) {
    items_.push_back({{}, Item::Kind::TableAgain, static_cast<int32_t>(again - tables_.begin())});
    return true;
  }
  tables_.push_back(table);
  items_.push_back({{}, Item::Kind::Table});
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    items_.push_back({plain_value(L, -2), Item::Kind::Plain});
    if (lua_type(L, -2) == LUA_TSTRING) {
      lua_pushvalue(L, -2);
      snapshot.keep(L, anchors);
    }
    const bool fits = record_value(L, anchors, snapshot, depth + 1);
    lua_pop(L, fits ? 1 : 2);
    if (!fits) return false;
  }
  items_.push_back({{}, Item::Kind::End});
  return true;
}

void ArgumentTree::pin(const Snapshot& snapshot) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (snapshot.storages().contains(&tensors_[i].storage()))
      inputs_[i].pinned = tensors_[i].impl();
}

bool ArgumentTree::fits(const Input& input, const Tensor& t) {
  only_sizes_ = false;
  if (!t.defined() || t.dtype() != input.dtype || t.device() != input.device ||
      t.requires_grad() != input.requires_grad || has_gradient(t) != input.has_gradient)
    return false;
  if (input.pinned != nullptr && t.impl() != input.pinned) return false;
  only_sizes_ = t.sizes() != input.sizes;
  return t.sizes() == input.sizes && t.strides() == input.strides &&
         (!input.fixed_offset || t.offset() == input.offset);
}

// The value lies on top.
bool ArgumentTree::match_value(lua_State* L, size_t& at, Reading& reading) {
  const Item& item = items_[at++];
  only_sizes_ = false;
  switch (item.kind) {
    case Item::Kind::Plain: return is_value(L, -1, item.value);
    case Item::Kind::Tensor: {
      const Tensor* t = tensor_cell(L, -1);
      if (t == nullptr) return false;
      const auto index = static_cast<size_t>(item.index);
      if (index < reading.inputs.size()) return t->is_same(reading.inputs[index]);
      if (!fits(inputs_[index], *t)) return false;
      reading.inputs.push_back(*t);
      return true;
    }
    case Item::Kind::TableAgain: return lua_topointer(L, -1) == tables_[item.index];
    case Item::Kind::Table: return match_table(L, at, reading);
    default: return false;
  }
}

bool ArgumentTree::match_table(lua_State* L, size_t& at, Reading& reading) {
  if (!is_plain_table(L, -1)) return false;
  const void* const table = lua_topointer(L, -1);
  if (std::find(tables_.begin(), tables_.end(), table) != tables_.end()) return false;
  tables_.push_back(table);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    bool same = items_[at].kind == Item::Kind::Plain && is_value(L, -2, items_[at].value);
    same = same && match_value(L, ++at, reading);
    lua_pop(L, same ? 1 : 2);
    if (!same) return false;
  }
  return items_[at++].kind == Item::Kind::End;
}

bool ArgumentTree::matches(lua_State* L, int first, int count, const Snapshot& snapshot,
                           std::vector<Tensor>& inputs) {
  inputs.clear();
  tables_.clear();
  at_argument_ = 0;
  only_sizes_ = false;
  if (count != count_) return false;
  Reading reading{inputs};
  size_t at = 0;
  for (int i = 0; i < count; ++i) {
    at_argument_ = i + 1;
    lua_pushvalue(L, first + i);
    const bool same = match_value(L, at, reading);
    lua_pop(L, 1);
    if (!same) return false;
  }
  at_argument_ = 0;
  // Who shares memory with whom.
  const bool few = inputs.size() <= kFew;
  const std::vector<int32_t> shares = few ? std::vector<int32_t>() : sharing(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t found = few ? 0 : static_cast<size_t>(shares[i]);
    if (few)
      while (&inputs[found].storage() != &inputs[i].storage()) ++found;
    const Input& input = inputs_[i];
    if (found != static_cast<size_t>(input.shares)) return false;
    if (found != i && shift(inputs[i], input.offset) != shift(inputs[found], inputs_[found].offset))
      return false;
    if (input.pinned == nullptr && snapshot.storages().contains(&inputs[i].storage())) return false;
  }
  return true;
}

bool ArgumentTree::same_but_sizes(const ArgumentTree& other) const {
  if (count_ != other.count_ || items_ != other.items_ || inputs_.size() != other.inputs_.size())
    return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input &a = inputs_[i], &b = other.inputs_[i];
    if (a.dtype != b.dtype || a.device != b.device || a.requires_grad != b.requires_grad ||
        a.has_gradient != b.has_gradient || a.shares != b.shares || a.pinned != b.pinned ||
        a.fixed_offset || b.fixed_offset || a.sizes.size() != b.sizes.size())
      return false;
  }
  return true;
}

std::string ArgumentTree::different() const {
  if (at_argument_ > 0) return text("argument ", at_argument_);
  return count_ >= 0 ? "the arguments" : "";
}

namespace {

bool push_holder_in(lua_State* L, const TensorImpl* tensor, int depth) {
  if (const Tensor* t = tensor_cell(L, -1)) return t->impl() == tensor;
  if (depth > kMostDepth || !is_plain_table(L, -1)) return false;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    if (push_holder_in(L, tensor, depth + 1)) {
      lua_replace(L, -3);
      lua_pop(L, 1);
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

}  // namespace

bool ArgumentTree::push_holder(lua_State* L, int first, int count, const TensorImpl* tensor) {
  luaL_checkstack(L, 2 * kMostDepth + 8, "compile");
  for (int i = 0; i < count; ++i) {
    lua_pushvalue(L, first + i);
    if (push_holder_in(L, tensor, 0)) return true;
    lua_pop(L, 1);
  }
  return false;
}

}  // namespace moonlet::binding
