// interp/workers/pack.h: from the values of a Lua state to a message.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "interp/workers/catalog.h"
#include "interp/workers/message.h"
#include "tensor/core/error.h"

namespace moonlet::workers {

// A value that is not for other interpreters; the message says the way to it. Who can do without it
// goes on, unlike when memory is short or the run is to end.
class CannotCross : public Error {
 public:
  using Error::Error;
};

// Copies values and all that they lead to, but for what both states have and the memory of tensors.
// Needs a few slots of the stack while it lives, at whose top it must be made. Throws CannotCross.
// The memory of tensors and storages is handed over (Storage::hand_over).
class Packer {
 public:
  // `shared` is the index of the shared table for who will get the message.
  Packer(lua_State* L, int shared, const Catalog& catalog);

  // Adds the value on top of the stack, which it pops. `name` is how errors call it.
  Value add(const std::string& name);
  // The same for the values at indices `first` to `last`, which become those of the message; they
  // stay. The first `count` of them have names.
  void add_values(int first, int last, const char* const* names, size_t count);
  // Adds what the library's side tables and the list of loaded modules say of what was added.
  void add_side_entries();
  void add_modules();
  // Takes out all that was added since there were so many objects; the stack is the caller's.
  size_t mark() const { return message_.objects.size(); }
  void roll_back(size_t mark);

  // Notes in the shared table what crosses, so that it can come back as itself.
  void note_sent();
  Message& message() { return message_; }
  const Catalog& catalog() const { return catalog_; }
  // Whether it holds anything that side tables may speak of.
  bool has_objects() const { return has_objects_; }

 private:
  // How an object was met first.
  struct Trace {
    enum class Kind : uint8_t { Root, Field, Key, Metatable, Local };
    uint32_t from = 0;
    Kind kind = Kind::Root;
    std::string name;
  };

  Value refer(int index, uint32_t from, Trace::Kind kind, int key = 0, const char* name = "");
  uint32_t new_object(int index);
  bool find_shared(int index, Trace::Kind kind, Object& out);
  bool keeps_identity(int index, Trace::Kind kind);
  void fill(uint32_t object);
  void fill_table(uint32_t object);
  void fill_metatable(uint32_t object);
  void fill_environment(uint32_t object);
  void fill_function(uint32_t object);
  void fill_userdata(uint32_t object);
  Object c_function();
  bool find_path(int table, int depth, std::vector<std::string>& names);
  void drain();
  void drain_objects();
  void add_entries_of(int number);
  std::string text_of_key(int key);
  std::string way_to(const Trace& trace) const;
  [[noreturn]] void refuse(const Trace& trace, const std::string& what) const;

  lua_State* L;
  const int shared_;
  const Catalog& catalog_;
  int memo_, found_;  // Lua tables: objects to their numbers, and back
  Message message_;
  std::vector<Trace> traces_;
  size_t filled_ = 0;
  std::vector<uint32_t> environments_;  // whose fields are still to be looked at
  bool has_objects_ = false;
  std::unordered_map<const void*, uint32_t> cells_;
};

}  // namespace moonlet::workers
