// interp/workers/message.h: values on their way from one interpreter to another: a graph without
// anything of Lua, so that any thread may hold it. Tensors keep their memory.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lua.hpp"

#include "tensor/core/typed_storage.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::workers {

// A value; what is not plain is one of the message's objects.
struct Value {
  enum class Kind : uint8_t { Nil, False, True, Integer, Number, Pointer, Object };
  Kind kind = Kind::Nil;
  union {
    lua_Integer integer = 0;
    lua_Number number;
    void* pointer;
    uint32_t object;
  };
};

struct TableObject {
  std::vector<std::pair<Value, Value>> fields;
  Value metatable;
  // Of the environment of a function: names whose values cannot cross, and why.
  std::vector<std::pair<std::string, std::string>> missing;
};
// A Lua function. Functions that share a local share its cell.
struct FunctionObject {
  std::string code;
  std::vector<uint32_t> cells;
};
struct CellObject {
  Value value;
};
struct TensorObject {
  Tensor tensor;
  bool requires_grad;
};
struct StorageObject {
  TypedStorage storage;
};
struct ComplexObject {
  double real, imaginary;
};
// A value that both have: of their catalog, or at a position of the message of the start.
struct LibraryObject {
  int number;
};
struct SentObject {
  uint32_t position;
};
// A C function of a module that the script has loaded: module, field, field of that ...
struct PathObject {
  std::vector<std::string> names;
};
using Object =
    std::variant<std::string, TableObject, FunctionObject, CellObject, TensorObject, StorageObject,
                 Generator, ComplexObject, LibraryObject, SentObject, PathObject>;

// What the library keeps in a side table (Catalog) for a value that crosses.
struct SideEntry {
  int table;
  Value key, value;
};

struct Message {
  std::vector<Object> objects;  // number i is objects[i - 1]
  std::vector<Value> values;
  std::vector<SideEntry> side_entries;
  // Modules of the script that crossed: what `require` gives there.
  std::vector<std::pair<std::string, Value>> modules;
};
using MessagePtr = std::shared_ptr<const Message>;

}  // namespace moonlet::workers
