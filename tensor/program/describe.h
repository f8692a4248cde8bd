// tensor/program/describe.h: what the nodes of a graph cost, and a graph as text for people.
#pragma once

#include <optional>
#include <string>

#include "tensor/program/graph.h"

namespace moonlet::program {

struct Cost {
  int64_t bytes_read = 0, bytes_written = 0;
  // Additions and multiplications of floating and other numbers; a value of a pointwise op counts
  // as one, whatever the op. Nothing where they are not known.
  std::optional<double> flops;
};
// Views cost nothing. What is broadcast is read once.
Cost cost_of(const Graph& graph, const Node& node);

// Whether a node computes sums of products: of matrices, convolutions, attention.
bool is_product(const Node& node);

// The sum over a graph.
struct TotalCost {
  int ops = 0, views = 0, unknown = 0;  // unknown: ops whose flops are not known
  int64_t bytes_read = 0, bytes_written = 0;
  double flops = 0;
  int64_t input_bytes = 0, parameter_bytes = 0, internal_bytes = 0;  // of the buffers
};
TotalCost cost_of(const Graph& graph);

// A line per node under the script's lines, then the sums:
//   train.lua:12
//     %3 = mm(%1, %2) : float32 (64, 10)  # reads 20.5 KB, writes 2.6 KB, 82 kflop
std::string describe(const Graph& graph);

// "20.5 KB" of 20480 + 20 bytes: units of 1000, three digits; "82 kflop".
std::string bytes_text(int64_t bytes);
std::string flops_text(double flops);

}  // namespace moonlet::program
