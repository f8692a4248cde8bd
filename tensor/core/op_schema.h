// tensor/core/op_schema.h: a schema of an op that is read at run time, of ops that no row declares:
// "mylib::snake(Tensor x, float a=1.0) -> Tensor", in the language of docs/op-table.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/op_info.h"

namespace moonlet {

// What a type of arguments is.
struct OpType {
  const char* name;  // as schemas write it: "Dim?"
  const char* cpp;   // what C++ gets: "std::optional<int64_t>"
  bool tensor;       // it holds tensors
  bool from_one;     // scripts count it from 1
  bool optional;     // it may be missing
  // The value as the type has it. Throws boxing::WrongKind.
  BoxedValue (*take)(const BoxedValue& value);
};
// The type of that name, or null. "double" is another name of float.
const OpType* find_op_type(std::string_view name);

struct OpSchema {
  struct Argument {
    std::string name;
    const OpType* type;
    std::string default_text;  // as in the schema; empty where the argument must be given
    bool written = false;      // "Tensor! x"
  };
  struct Result {
    std::string name;  // "y", where it has none
    bool list = false;
  };

  std::string text;  // with single spaces
  std::string name;  // "mylib::snake"
  std::vector<Argument> arguments;
  std::vector<Result> results;

  // The position of an argument, or -1.
  int find(std::string_view argument) const;
  std::string_view library() const;     // "mylib", or empty
  std::string_view short_name() const;  // "snake"
};

// Throws Error that quotes the schema and says what is wrong with it.
OpSchema parse_op_schema(std::string_view text);

// The value that an argument has when a call leaves it out: a monostate for none. Throws Error
// where the argument must be given, or its default is no value of its type.
BoxedValue default_of(const OpSchema& schema, const OpSchema::Argument& argument);

// The value as the type has it (an integer for a float, a number for an Operand). Throws Error that
// names the op and the argument.
BoxedValue as_type(const char* op, const OpSchema::Argument& argument, const BoxedValue& value);

}  // namespace moonlet
