// tensor/program/fusion/loop_node.h: a node of a graph as an op of a loop: which elements of which
// buffers it reads and writes at each index of its shape.
#pragma once

#include <optional>
#include <vector>

#include "tensor/pointwise/run.h"
#include "tensor/program/graph.h"

namespace moonlet::program {

// The sizes of a shape without dimensions of one element, the innermost in memory first; none for
// one element.
struct Extent {
  int ndim = 0;
  int64_t sizes[kMaxDims]{};
  int64_t numel() const;
  bool operator==(const Extent& other) const;
};

// Elements of a buffer, one at each index of an extent. All in bytes.
struct Elements {
  BufferId buffer = kNone;
  DType dtype = DType::Float32;
  int64_t offset = 0;
  int64_t strides[kMaxDims]{};
  int64_t low = 0, high = 0;  // what is reached, as [low, high)

  bool overlaps(const Elements& other) const {
    return buffer == other.buffer && low < other.high && other.low < high;
  }
};
// Whether both are the same element at each index.
bool same_elements(const Elements& a, const Elements& b, int ndim);
// The bytes that a value reaches, with no strides.
Elements reach_of(const Graph& graph, ValueId id);

struct LoopNode {
  struct Input {
    bool is_number = false;
    Scalar number;
    Elements elements;
  };
  const PointwiseOp* op = nullptr;  // null: a copy or fill
  DType compute = DType::Float32;
  Extent extent;
  Elements out;
  int inputs = 0;
  Input in[kMaxPointwiseInputs];
  std::vector<Scalar> params;
};

// The node as an op of a loop, if it is one: a pointwise op, a copy, a fill or a change of dtype,
// of some elements, where each index can be computed for itself.
std::optional<LoopNode> loop_node(const Graph& graph, const Node& node);

// The coarsest extent of which both are joined dimensions, where there is one.
std::optional<Extent> common_extent(const Extent& a, const Extent& b);
// The strides over `from` as strides over `to`, a refinement of it.
void refine(const Extent& from, const Extent& to, int64_t* strides);

}  // namespace moonlet::program
