// interp/binding/binding_state.h: what the tensor binding keeps for one Lua state. It lives inside
// StateData, so every field is one load away from the lua_State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

struct lua_State;

namespace moonlet {

namespace binding {
class HeldFunction;
}

// How tensors print (print.cpp).
struct PrintOptions {
  int precision = 4;             // digits behind the point
  int64_t threshold = 1000;      // tensors of more elements show their ends only
  int64_t edge_items = 3;        // of each dimension, at either end
  size_t line_width = 80;        // in characters
  std::optional<bool> sci_mode;  // always or never with exponents; nothing: as the numbers need it
};

struct BindingState {
  PrintOptions print;
  int metatable_ref = 0;  // registry position of the metatable of tensors, once it is made
  int shape_ref = 0;      // registry position of the metatable of shapes
  const void* storage_metatable = nullptr;  // the same of storages
  int storage_metatable_ref = 0;
  int storages_ref = 0;  // registry position of the weak table of storages that scripts hold
  int (*ipairs_step)(lua_State*) = nullptr;  // the iterator of `ipairs`
  const void* generator_metatable = nullptr;
  int generator_ref = 0;  // registry position of that table
  const void* complex_metatable = nullptr;
  int complex_ref = 0;               // the same of complex numbers
  uint64_t first_seed = 0;           // that of generators made without one is derived from it
  uint64_t unseeded_generators = 0;  // how many the script has made since
  int64_t paid_bytes = 0;            // thread_allocated_bytes() already charged to the collector
  int64_t backward_bytes = 0;        // what the last backward allocated
  int module_ref = 0;                // registry position of the module's table, once it is open
  // Registry position of the weak table of userdata by the address of their tensor: of those whose
  // tensor something outside Lua holds or may hold.
  int seen_ref = 0;
  // Lua functions that the tape holds (homes.h): registry positions of the tables, how many tensors
  // have some, whether an object watches the collector's cycles for them, and whether dead tensors
  // are kept in this cycle.
  int homes_ref = 0;
  int positions_ref = 0;
  int needed_ref = 0;
  int homes = 0;
  bool reviewing = false;
  bool keep_dead = false;
  int64_t last_function = 0;
  std::unordered_map<int64_t, std::weak_ptr<binding::HeldFunction>> functions;
};

}  // namespace moonlet
