// interp/workers/catalog.h: what two interpreters have in common. The standard library and Lua's
// own libraries are the same code in each, so their tables and functions need not cross: they are
// numbered by the ways that lead to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lua.hpp"

namespace moonlet::workers {

// The way to one value, from one that was found before.
struct Step {
  enum class Kind : uint8_t {
    Module,
    Globals,
    Environment,
    Shapes,
    Field,
    Item,
    Metatable,
    Upvalue
  };
  Kind kind = Kind::Module;
  int type = 0;              // of Lua: a table, a function or a userdata
  int parent = 0;            // a number of the catalog; 0: none
  lua_Integer position = 0;  // of an item or an upvalue
  std::string name{};        // of a module or a field
  size_t code = 0;           // where the text of a Lua function stands, hashed
};

// The value with number i has the way steps[i - 1].
struct Catalog {
  std::vector<Step> steps;
  // Tables with weak keys in which the library keeps what belongs to values of scripts: the names
  // of classes, which tensors are parameters.
  std::vector<int> side_tables;
};

// What an interpreter keeps for each other one that it deals with, in a Lua table: four tables.
enum Shared : int {
  kNumbers = 1,    // the number of each value of the catalog
  kValues,         // the value of each number
  kSentPositions,  // of what crossed at the start, the position in that message
  kSent,           // and by position
};

// How a script reaches the value of that number: "moonlet.nn.Linear".
std::string name_of(const Catalog& catalog, int number);

// Pushes the value of that number. Throws, naming it, when this state lacks it.
void push_library_value(lua_State* L, int shared, const Catalog& catalog, int number);

// Reads the catalog of a state whose scripts have run, and pushes its shared table.
Catalog read_catalog(lua_State* L);

// Pushes the shared table of a fresh state, in which the modules are required that are named there.
// Returns the numbers of values that it lacks, since scripts of the other one put them there: at
// these the table holds false. Raises a Lua error or throws when the run is to end or memory is
// short, since what is lacking is not known then.
std::vector<int> apply_catalog(lua_State* L, const Catalog& catalog);

// Takes values out of the shared table at `shared`.
void forget(lua_State* L, int shared, const std::vector<int>& numbers);

// Pushes one of the four tables.
inline void push_shared(lua_State* L, int shared, Shared which) { lua_rawgeti(L, shared, which); }

// Whether the table at `index` says that entries vanish with their keys, or with their values.
bool has_weak(lua_State* L, int index, char which);

}  // namespace moonlet::workers
