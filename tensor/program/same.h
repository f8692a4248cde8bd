// tensor/program/same.h: whether two captures of a function wrote down the same graph.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tensor/program/graph.h"

namespace moonlet::program {

// Where two graphs part. `line` is the script's in the second one, "train.lua:12", or "".
struct Difference {
  std::string what;
  std::string line;
};

// The first difference, or nothing. Parameters are the same when they are the same tensors; a
// tensor that each run made of numbers of its own (a constant) is the same when neither graph
// writes it and its elements are those of the other.
std::optional<Difference> difference(const Graph& a, const Graph& b);
inline bool same(const Graph& a, const Graph& b) { return !difference(a, b); }

// Whether two arguments are equal to the last bit: a zero of either sign and every NaN count for
// themselves. Tensors are not, as a graph holds values instead.
bool same(const BoxedValue& a, const BoxedValue& b);

// Makes offsets on the memory of inputs count from the first element of the first input on it, so
// that graphs of inputs at other positions are the same. Calls `pin(i)` for an input whose position
// counts: where nodes name positions of its storage, or see it as several dtypes.
void normalize_inputs(Graph& graph, const std::function<void(size_t)>& pin);

// Whether some node writes the buffer.
bool is_written(const Graph& graph, BufferId buffer);

}  // namespace moonlet::program
