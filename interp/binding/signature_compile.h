// interp/binding/signature_compile.h: a declaration of stdlib/signature.lua as the reader of its
// arguments uses it: one block of memory without pointers, and a table of the Lua values in it.
#pragma once

#include <cstdint>

#include "lua.hpp"

namespace moonlet::binding::declared {

enum class Kind : uint8_t {
  Any,
  Tensor,
  Bool,
  Int,
  Number,
  String,
  Function,
  Generator,
  Table,
  Choice,  // of the keys of a table
  Convert  // what a function of the library makes of it
};

// One of the types that a parameter takes.
struct Part {
  static constexpr int kSingle = -1, kAnyLength = 0;

  Kind kind;
  bool above;  // `low` itself is not allowed
  int length;  // kSingle, kAnyLength of an array, or that of one for which one value may stand
  int value;   // of a choice or function: its position in the table of values
  double low, high;
};

// Aligned for the parts, which follow the last one.
struct alignas(Part) Parameter {
  bool required, variadic;
  bool is_any;  // and not optional: an empty table is the value
  // Whether arrays and tables of names are such values, and arrays only of a fixed length.
  bool takes_list, takes_dict, fixed;
  bool is_constant;  // the default, which then is converted already
  int first, count;  // its parts
  int value;  // of the default or what makes it: its position in the table of values, 0: none
};

// Followed by the parameters, and these by their parts. The table of values begins with the names.
struct Signature {
  uint64_t mark;
  int count;
  int positions;  // in the table of values: a table of each name's, and each alias's, number

  const Parameter& parameter(int i) const {
    return reinterpret_cast<const Parameter*>(this + 1)[i];
  }
  const Part& part(int i) const {
    const auto* end = reinterpret_cast<const Parameter*>(this + 1) + count;
    return reinterpret_cast<const Part*>(end)[i];
  }
};

// Pushes the table of values of the declaration at stack index 1, which is compiled at its first
// use, and returns the signature.
const Signature& push_signature(lua_State* L);

}  // namespace moonlet::binding::declared
