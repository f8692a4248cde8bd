// tensor/program/file/graph_json.h: a graph as JSON, and back: its memory, values, ends and nodes.
// Parameters are left to who keeps their tensors.
#pragma once

#include "tensor/io/json.h"
#include "tensor/io/json_tree.h"
#include "tensor/program/graph.h"

namespace moonlet::program {

// Ids in files are from 0 to this.
inline constexpr int64_t kMostId = INT32_MAX - 1;

// Adds the fields of a graph to the object that is open.
void write_graph(io::JsonWriter& out, const Graph& graph);
// The graph whose fields an object has. What it says of values and nodes is not checked
// (shapes/check_graph.h). Throws Error naming the field.
Graph read_graph(const io::JsonTree& tree);

// A field that is a list of texts.
void write_strings(io::JsonWriter& out, const char* key, const std::vector<std::string>& list);
std::vector<std::string> read_strings(const io::JsonTree& tree, const char* key);
// An id, not kNone; a field that is a list of them.
int32_t read_index(const io::JsonTree& tree, const char* where);
std::vector<int32_t> read_indices(const io::JsonTree& tree, const char* key);

}  // namespace moonlet::program
