// tensor/program/schema.h: the schema of an op, read at run time: which arguments its boxed call
// takes.
#pragma once

#include <string_view>
#include <vector>

namespace moonlet::program {

struct SchemaArgument {
  std::string_view type;  // without the mark of one that is written: "Tensor", "Dim[]?"
  std::string_view name;
};

// Refers to the text it was read from.
struct Schema {
  std::vector<SchemaArgument> arguments;
  int results = 0;
};

// Reads "cummax(Tensor x, Dim dim) -> (Tensor values, Tensor indices)".
Schema read_schema(std::string_view text);

}  // namespace moonlet::program
