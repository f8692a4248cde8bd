// interp/binding/program/snapshot.h: the plain values that a function can reach, as they are now:
// its upvalues and globals, the tables, objects and functions behind these, and of tensors all but
// their elements. Compared later, in the order in which it was made, it says whether anything else
// would be read then.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "interp/binding/program/plain_value.h"

namespace moonlet::binding {

class Snapshot {
 public:
  // A function beyond so many values is not watched.
  static constexpr size_t kMostValues = 20'000;

  // Walks on from the value at a stack index, which messages call `name`. What is walked is kept
  // alive by the table at stack index `anchors`. False when there are too many values.
  bool add(lua_State* L, int anchors, int value, std::string name);

  // Whether all is as it was. Allocates nothing.
  bool holds(lua_State* L, int anchors);
  // What `holds` found changed: "net.training".
  std::string changed(lua_State* L, int anchors) const;

  bool reaches(const TensorImpl* tensor) const { return tensors_.contains(tensor); }
  const std::unordered_set<const Storage*>& storages() const { return storages_; }
  // The position in the table of anchors of an object that was walked, or 0.
  int anchor_of(const void* object) const {
    const auto found = seen_.find(object);
    return found == seen_.end() ? 0 : found->second;
  }
  size_t size() const { return slots_.size(); }
  // From now on the field of a table, whose name lies on top, may be any number: one that a program
  // asks for before each run. Pops the name.
  void free_number(lua_State* L, const void* table);
  // Keeps the value on top of the stack alive, and pops it. Returns its position.
  int keep(lua_State* L, int anchors);

 private:
  enum class Kind : uint8_t { Table, Function, Globals };
  struct Slot {
    PlainValue key, value;
    int32_t tensor = -1;   // into records_
    int32_t anchor = 0;    // of a global: that of its name
    bool is_free = false;  // any number
  };
  struct Frame {
    Kind kind;
    int32_t anchor = 0;
    int32_t first = 0, count = 0;  // of slots_
    const void* metatable = nullptr;
    int32_t parent = -1, slot = -1;  // whose slot it was found in
    std::string name;                // of a root
  };
  // What a tensor is beside its elements.
  struct TensorRecord {
    explicit TensorRecord(const Tensor& t);
    bool holds(const Tensor& t) const;
    DType dtype;
    bool requires_grad;
    const Storage* storage;
    int64_t offset;
    Dims sizes, strides;
  };
  struct Walk;

  bool frame_holds(lua_State* L, int anchors, const Frame& frame);
  bool table_holds(lua_State* L, const Frame& frame);
  bool slot_holds(lua_State* L, int index, const Slot& slot) const;
  std::string path(lua_State* L, int anchors, int frame) const;
  std::string slot_name(lua_State* L, int anchors, const Frame& frame, int slot) const;

  std::vector<Frame> frames_;
  std::vector<Slot> slots_;
  std::vector<TensorRecord> records_;
  std::unordered_set<const TensorImpl*> tensors_;
  std::unordered_set<const Storage*> storages_;
  std::unordered_map<const void*, int> seen_;  // anchors of what is walked
  int anchor_count_ = 0;
  int failed_frame_ = -1, failed_slot_ = -1;
};

}  // namespace moonlet::binding
