// interp/binding/registry.h: how the generated bindings hand their functions to the module.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// One generated C function under one name.
struct OpEntry {
  const char* name;        // "softmax", or in a namespace of `ml` "linalg.svd"
  lua_CFunction function;  // null where the build has no such op
  bool is_function;        // a field of `ml` or of that namespace
  bool is_method;          // a method of tensors
  bool is_internal;        // a field of `ml._internal`
  const char* metamethod;  // "__add", or null
};

struct OpFamily {
  const OpEntry* entries;
  int count;
};

// All families; generated.
extern const OpFamily* const* const kOpFamilies;
extern const int kOpFamilyCount;

}  // namespace moonlet::binding
