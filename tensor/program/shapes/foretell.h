// tensor/program/shapes/foretell.h: what the graph of a function must be at sizes at which it was
// not captured yet, by those of its graphs at other sizes.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tensor/program/graph.h"

namespace moonlet::program {

// The graph of the function that gave the `known` graphs, for inputs of the sizes that those of
// `now` have. From `least` different sizes on, or more where several vary apart from one another.
// Nothing, and the reason, where the numbers in these graphs are no sums of multiples of the sizes.
std::optional<Graph> foretell(std::span<const Graph* const> known, const Graph& now, size_t least,
                              std::string& reason);

}  // namespace moonlet::program
