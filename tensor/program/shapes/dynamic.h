// tensor/program/shapes/dynamic.h: programs whose inputs have sizes that differ from run to run:
// which arguments of ops follow the sizes is found from captures of several sizes, and the graph of
// other sizes is made by asking its ops what they give.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/program/program_data.h"

namespace moonlet::program {

// Throws unless the sizes and arguments that follow them are of the graph.
void check_dynamic(const ProgramData& data);

// The sizes of all symbols for inputs of such sizes; throws naming the input where a size that does
// not vary is another, or two that are one differ.
std::vector<int64_t> sizes_of(const ProgramData& data, std::span<const Dims> inputs);

// The graph for other sizes.
Graph with_sizes(const ProgramData& data, const std::vector<int64_t>& sizes);

// Finds what follows the sizes: `graphs[i]` is of the same function at `sizes[i]` for all symbols;
// the first are `data`'s own. Those of the first graphs, one more than there are symbols, must be
// independent; the others show whether what these give holds. Throws naming the op where the graphs
// are not alike, or an argument is no sum of multiples of the sizes.
void fit_dynamic(ProgramData& data, const std::vector<Graph>& graphs,
                 const std::vector<std::vector<int64_t>>& sizes);

// Whether none of the sizes lies where sums of multiples of the others, 1 in all, lie.
bool are_independent(const std::vector<std::vector<int64_t>>& sizes);

}  // namespace moonlet::program
