// interp/workers/unpack.h: from a message to the values of a Lua state.
#pragma once

#include "interp/workers/catalog.h"
#include "interp/workers/message.h"
#include "lua.hpp"

namespace moonlet::workers {

// The __index of a table some of whose values could not cross. Upvalues: why not, by name, and the
// __index that it has otherwise, or nil.
int missing_value(lua_State* L);

// Makes the objects of a message in a state, at the top of whose stack it must be made, and pushes
// values of it. `shared` is the index of the shared table for who has sent it. The message outlives
// it. Throws when this state lacks what the message takes for granted: libraries may have been
// loaded here as far as memory allowed.
class Unpacker {
 public:
  Unpacker(lua_State* L, int shared, const Catalog& catalog, const Message& message);
  void push(const Value& value);
  // Pushes the values of the message; returns how many.
  int push_values();
  // Notes in the shared table what has come, so that it can go back as itself.
  void note_sent();

 private:
  void make_objects();
  void set_metatables();
  void set_side_entries();
  void set_modules();
  void set_metatable(int target);
  void push_sent(uint32_t position);
  void make(size_t number);
  void make_function(const FunctionObject& function);
  void make_tensor(const TensorObject& tensor);
  void make_path(const PathObject& path);
  void fill(size_t number);
  void set_missing(const TableObject& table);
  void fill_cells(const FunctionObject& function, int index);

  lua_State* L;
  const int shared_;
  const Catalog& catalog_;
  const Message& message_;
  int made_;  // a Lua table: the objects by number
  // Of each cell the first function that has it, and the position among its upvalues.
  std::vector<std::pair<uint32_t, int>> homes_;
};

}  // namespace moonlet::workers
