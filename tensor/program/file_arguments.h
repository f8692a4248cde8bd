// tensor/program/file_arguments.h: arguments of nodes as JSON: a list of a tag and what it is.
#pragma once

#include "tensor/io/json.h"
#include "tensor/io/json_tree.h"
#include "tensor/program/graph.h"

namespace moonlet::program {

void write_argument(io::JsonWriter& out, const Argument& argument);
Argument read_argument(const io::JsonTree& tree);

// Lists of integers.
template <class List>
void write_integers(io::JsonWriter& out, const List& list) {
  out.begin_array();
  for (const int64_t each : list) out.integer(each);
  out.end_array();
}
Dims read_dims(const io::JsonTree& tree, const char* where);
void write_refs(io::JsonWriter& out, const ValueRefs& refs);
ValueRefs read_refs(const io::JsonTree& tree, const char* where);
// An index of a value, or kNone.
ValueId read_id(const io::JsonTree& tree, const char* where);

}  // namespace moonlet::program
