// interp/binding/program/snapshot.cpp: walks what a function can reach, and compares.
#include "interp/binding/program/snapshot.h"

#include <deque>

#include "interp/binding/program/library_tables.h"
#include "interp/binding/program/used_globals.h"

namespace moonlet::binding {
namespace {

const void* metatable_of(lua_State* L, int index) {
  if (lua_getmetatable(L, index) == 0) return nullptr;
  const void* out = lua_topointer(L, -1);
  lua_pop(L, 1);
  return out;
}

}  // namespace

Snapshot::TensorRecord::TensorRecord(const Tensor& t)
    : dtype(t.dtype()),
      requires_grad(t.requires_grad()),
      storage(&t.storage()),
      offset(t.offset()),
      sizes(t.sizes()),
      strides(t.strides()) {}

bool Snapshot::TensorRecord::holds(const Tensor& t) const {
  return &t.storage() == storage && t.dtype() == dtype && t.offset() == offset &&
         t.sizes() == sizes && t.strides() == strides && t.requires_grad() == requires_grad;
}

// One walk from a root, breadth first. Stack: what is looked at lies on top.
struct Snapshot::Walk {
  Snapshot& self;
  lua_State* L;
  const int anchors;
  const std::unordered_set<const void*> modules = library_modules(L);
  std::deque<int> waiting{};  // frames to fill
  const PlainValue registry = name_of("_registry"), order = name_of("order");

  // Short strings exist once.
  PlainValue name_of(const char* name) {
    lua_pushstring(L, name);
    lua_pushvalue(L, -1);
    self.keep(L, anchors);
    const PlainValue out = plain_value(L, -1);
    lua_pop(L, 1);
    return out;
  }

  void add_slot(int frame, const PlainValue& key, int32_t anchor = 0) {
    self.slots_.push_back({key, plain_value(L, -1), -1, anchor});
    const int slot = self.frames_[frame].count++;
    if (in_registry(frame, slot))
      keep_object();
    else
      meet(frame, slot);
  }

  // A module notes in the table `_registry` what its fields are. But for their order, that follows
  // from the fields, which are looked at.
  bool in_registry(int frame, int slot) const {
    const Frame& f = self.frames_[frame];
    if (f.kind != Kind::Table || f.parent < 0 || f.slot < 0 || !lua_istable(L, -1)) return false;
    const Frame& holder = self.frames_[f.parent];
    return holder.kind == Kind::Table && holder.metatable != nullptr &&
           self.slots_[holder.first + f.slot].key == registry &&
           self.slots_[f.first + slot].key != order;
  }

  // The value on top was found there: what it is made of is looked at later.
  void meet(int frame, int slot) {
    switch (lua_type(L, -1)) {
      case LUA_TUSERDATA:
        if (const Tensor* t = tensor_cell(L, -1))
          meet_tensor(*t);
        else
          keep_object();
        break;
      case LUA_TTHREAD: keep_object(); break;
      case LUA_TSTRING:
        lua_pushvalue(L, -1);
        self.keep(L, anchors);
        break;
      case LUA_TTABLE:
        if (!is_leaf_table())
          begin(Kind::Table, frame, slot);
        else
          keep_object();
        break;
      case LUA_TFUNCTION:
        if (!is_leaf_function(frame))
          begin(Kind::Function, frame, slot);
        else
          keep_object();
        break;
      default: break;
    }
  }

  // So that nothing else gets its address.
  void keep_object() {
    const void* const object = lua_topointer(L, -1);
    if (self.seen_.contains(object)) return;
    lua_pushvalue(L, -1);
    self.seen_[object] = self.keep(L, anchors);
  }
  bool is_leaf_table() {
    if (self.seen_.contains(lua_topointer(L, -1)) || modules.contains(lua_topointer(L, -1)))
      return true;
    return is_library_class(L, -1);
  }
  // The library's metamethods, of which each class has copies, change nothing but through what is
  // a root of its own (stdlib/compile.lua).
  bool is_leaf_function(int frame) {
    if (lua_iscfunction(L, -1) != 0 || self.seen_.contains(lua_topointer(L, -1))) return true;
    if (frame < 0 || !is_library_function(L, -1)) return false;
    const Frame& holder = self.frames_[frame];
    if (holder.kind != Kind::Table) return false;
    lua_rawgeti(L, anchors, holder.anchor);
    const bool in_class = is_class(L, -1);
    lua_pop(L, 1);
    return in_class;
  }

  void meet_tensor(const Tensor& t) {
    if (!t.defined()) return;
    self.slots_.back().tensor = static_cast<int32_t>(self.records_.size());
    add_tensor(t);
  }
  void add_tensor(const Tensor& t) {
    self.records_.emplace_back(t);
    self.tensors_.insert(t.impl());
    self.storages_.insert(&t.storage());
  }

  // A frame for the object on top, which stays there.
  void begin(Kind kind, int parent, int slot, std::string name = {}) {
    const void* const object = lua_topointer(L, -1);
    lua_pushvalue(L, -1);
    const int anchor = self.keep(L, anchors);
    self.seen_[object] = anchor;
    self.frames_.push_back({kind, anchor, 0, 0, nullptr, parent, slot, std::move(name)});
    waiting.push_back(static_cast<int>(self.frames_.size()) - 1);
  }

  void fill(int frame) {
    self.frames_[frame].first = static_cast<int32_t>(self.slots_.size());
    lua_rawgeti(L, anchors, self.frames_[frame].anchor);
    if (self.frames_[frame].kind == Kind::Table)
      fill_table(frame);
    else
      fill_function(frame);
    lua_pop(L, 1);
  }

  void fill_table(int frame) {
    self.frames_[frame].metatable = metatable_of(L, -1);
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
      const PlainValue key = plain_value(L, -2);
      if (lua_type(L, -2) == LUA_TSTRING) {
        lua_pushvalue(L, -2);
        self.keep(L, anchors);
      }
      add_slot(frame, key);
      lua_pop(L, 1);
    }
    if (lua_getmetatable(L, -1) == 0) return;
    if (!is_leaf_table()) begin(Kind::Table, frame, -1);
    lua_pop(L, 1);
  }

  void fill_function(int frame) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    const void* const globals = lua_topointer(L, -1);
    lua_pop(L, 1);
    const int function = lua_gettop(L);
    std::vector<std::string> names;
    int environment = 0;
    for (int i = 1; lua_getupvalue(L, function, i) != nullptr; ++i) {
      if (lua_topointer(L, -1) == globals) {
        lua_pushvalue(L, function);
        UsedGlobals used = used_globals(L, i);
        lua_pop(L, 1);
        if (!used.all) {
          names.insert(names.end(), used.names.begin(), used.names.end());
          environment = i;
        }
      }
      // The globals of which only names are used are no table to walk.
      if (environment == i) {
        self.slots_.push_back({{}, plain_value(L, -1), -1, 0});
        ++self.frames_[frame].count;
      } else {
        add_slot(frame, {});
      }
      lua_pop(L, 1);
    }
    if (!names.empty()) begin_globals(frame, names);
  }

  // Filled here, as its frame is known by the function.
  void begin_globals(int parent, const std::vector<std::string>& names) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushvalue(L, -1);
    const int anchor = self.keep(L, anchors);
    const int frame = static_cast<int>(self.frames_.size());
    self.frames_.push_back({Kind::Globals,
                            anchor,
                            static_cast<int32_t>(self.slots_.size()),
                            0,
                            nullptr,
                            parent,
                            -1,
                            {}});
    for (const std::string& name : names) {
      lua_pushlstring(L, name.data(), name.size());
      const PlainValue key = plain_value(L, -1);
      lua_pushvalue(L, -1);
      const int name_anchor = self.keep(L, anchors);
      lua_rawget(L, -2);
      add_slot(frame, key, name_anchor);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
};

void Snapshot::free_number(lua_State* L, const void* table) {
  const PlainValue key = plain_value(L, -1);
  lua_pop(L, 1);
  const int anchor = anchor_of(table);
  for (const Frame& frame : frames_) {
    if (anchor == 0 || frame.anchor != anchor || frame.kind != Kind::Table) continue;
    for (int i = frame.first; i < frame.first + frame.count; ++i)
      slots_[i].is_free = slots_[i].is_free || slots_[i].key == key;
  }
}

int Snapshot::keep(lua_State* L, int anchors) {
  lua_rawseti(L, anchors, ++anchor_count_);
  return anchor_count_;
}

bool Snapshot::add(lua_State* L, int anchors, int value, std::string name) {
  luaL_checkstack(L, 16, "compile");
  anchors = lua_absindex(L, anchors);
  Walk walk{*this, L, anchors};
  lua_pushvalue(L, value);
  if (lua_type(L, -1) == LUA_TTABLE || lua_type(L, -1) == LUA_TFUNCTION) {
    const bool table = lua_istable(L, -1);
    const bool leaf = table ? walk.is_leaf_table() : walk.is_leaf_function(-1);
    if (!leaf) walk.begin(table ? Kind::Table : Kind::Function, -1, -1, std::move(name));
  }
  lua_pop(L, 1);
  while (!walk.waiting.empty() && slots_.size() <= kMostValues) {
    const int frame = walk.waiting.front();
    walk.waiting.pop_front();
    walk.fill(frame);
  }
  return walk.waiting.empty() && slots_.size() <= kMostValues;
}

inline bool Snapshot::slot_holds(lua_State* L, int index, const Slot& slot) const {
  if (slot.is_free) [[unlikely]]
    return lua_type(L, index) == LUA_TNUMBER;
  if (slot.tensor < 0) return is_value(L, index, slot.value);
  const Tensor* t = tensor_cell(L, index);
  return t != nullptr && std::bit_cast<uintptr_t>(t->impl()) == slot.value.bits &&
         records_[slot.tensor].holds(*t);
}

// The table lies on top.
bool Snapshot::table_holds(lua_State* L, const Frame& frame) {
  failed_slot_ = -1;
  if (metatable_of(L, -1) != frame.metatable) return false;
  const Slot* const first = slots_.data() + frame.first;
  const Slot* const end = first + frame.count;
  const Slot* slot = first;
  lua_pushnil(L);
  for (; lua_next(L, -2) != 0; ++slot) {
    if (slot == end || !is_value(L, -2, slot->key) || !slot_holds(L, -1, *slot)) {
      failed_slot_ = static_cast<int>(slot - first);
      lua_pop(L, 2);
      return false;
    }
    lua_pop(L, 1);
  }
  failed_slot_ = static_cast<int>(slot - first);
  return slot == end;
}

// The object lies on top.
bool Snapshot::frame_holds(lua_State* L, int anchors, const Frame& frame) {
  if (frame.kind == Kind::Table) return table_holds(L, frame);
  for (int i = 0; i < frame.count; ++i) {
    const Slot& slot = slots_[frame.first + i];
    failed_slot_ = i;
    if (frame.kind == Kind::Function) {
      lua_getupvalue(L, -1, i + 1);
    } else {
      lua_rawgeti(L, anchors, slot.anchor);
      lua_rawget(L, -2);
    }
    const bool fits = slot_holds(L, -1, slot);
    lua_pop(L, 1);
    if (!fits) return false;
  }
  return true;
}

bool Snapshot::holds(lua_State* L, int anchors) {
  anchors = lua_absindex(L, anchors);
  for (size_t i = 0; i < frames_.size(); ++i) {
    lua_rawgeti(L, anchors, frames_[i].anchor);
    const bool fits = frame_holds(L, anchors, frames_[i]);
    lua_pop(L, 1);
    if (!fits) {
      failed_frame_ = static_cast<int>(i);
      return false;
    }
  }
  return true;
}

// --- names ---------------------------------------------------------------------------------------

namespace {

// "weight", "[1]" of the key on top, which it pops.
std::string key_name(lua_State* L) {
  std::string out;
  if (lua_type(L, -1) == LUA_TSTRING)
    out = lua_tostring(L, -1);
  else if (lua_isinteger(L, -1) != 0)
    out = text("[", static_cast<int64_t>(lua_tointeger(L, -1)), "]");
  else
    out = text("[", luaL_typename(L, -1), "]");
  lua_pop(L, 1);
  return out;
}

std::string joined(const std::string& of, const std::string& key) {
  if (of.empty() || key.empty()) return of + key;
  return key[0] == '[' ? of + key : of + "." + key;
}

}  // namespace

std::string Snapshot::path(lua_State* L, int anchors, int frame) const {
  const Frame& f = frames_[frame];
  if (f.parent < 0) return f.name;
  // Of a metatable: what it is the metatable of.
  if (f.slot < 0) return f.kind == Kind::Globals ? "" : path(L, anchors, f.parent);
  const std::string key = slot_name(L, anchors, frames_[f.parent], f.slot);
  const bool local = frames_[f.parent].kind != Kind::Table;
  return local ? key : joined(path(L, anchors, f.parent), key);
}

// What the value in that slot is called within its frame.
std::string Snapshot::slot_name(lua_State* L, int anchors, const Frame& frame, int slot) const {
  std::string out;
  lua_rawgeti(L, anchors, frame.anchor);
  if (frame.kind == Kind::Function) {
    const char* name = lua_getupvalue(L, -1, slot + 1);
    if (name != nullptr) {
      out = name;
      lua_pop(L, 1);
    }
  } else if (frame.kind == Kind::Globals) {
    lua_rawgeti(L, anchors, slots_[frame.first + slot].anchor);
    out = key_name(L);
  } else {
    lua_pushnil(L);
    for (int i = 0; lua_next(L, -2) != 0; ++i) {
      lua_pop(L, 1);
      if (i < slot) continue;
      out = key_name(L);
      break;
    }
  }
  lua_pop(L, 1);
  return out;
}

std::string Snapshot::changed(lua_State* L, int anchors) const {
  if (failed_frame_ < 0) return {};
  anchors = lua_absindex(L, anchors);
  luaL_checkstack(L, 8, "compile");
  const Frame& frame = frames_[failed_frame_];
  if (frame.kind != Kind::Table) return slot_name(L, anchors, frame, failed_slot_);
  const std::string of = path(L, anchors, failed_frame_);
  if (failed_slot_ < 0) return "the metatable of " + of;
  const std::string key = slot_name(L, anchors, frame, failed_slot_);
  return key.empty() ? "the fields of " + of : joined(of, key);
}

}  // namespace moonlet::binding
