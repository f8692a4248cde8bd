// tensor/program/fusion/strip.h: strips: neighbouring groups that run together, some rows at a
// time, so that what one of them gives the next lies in a cache meanwhile, and needs memory for so
// many rows only. So run loops in front of and behind reductions, softmax and norms of rows,
// gathers of rows, dropout's masks, and sums of all elements, each by its own kernel, in its order.
#pragma once

#include <memory>
#include <vector>

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/program/fusion/executor.h"
#include "tensor/program/fusion/group.h"

namespace moonlet::program {

// What is done for some rows.
struct StripPart {
  enum class Kind : uint8_t {
    Loop,
    Kernel,  // an op on tensors of so many rows, by its kernel
    Out,     // or by its out form
    Mask,    // of dropout
    Fold     // a reduction of all elements, which the next strip of rows goes on with
  };
  // What a loop reads or writes.
  struct Operand {
    BufferId buffer = kNone;
    int64_t strides[kMaxDims] = {};  // of the loop's outer dimensions, in bytes
  };

  Kind kind = Kind::Loop;
  Group group;
  // Of a loop. Its rows are the indices of the outer dimensions, of which dimension 0 is the
  // innermost and a multiple of a strip's rows where there are more.
  int outer = 0;
  int64_t outer_sizes[kMaxDims] = {};
  std::vector<Operand> operands;                    // loads, then stores
  std::unique_ptr<const LoopExecutor> whole, last;  // of as many rows as there are
  // Of a kernel: which arguments are given by rows, by bit, and which is what of dimensions.
  uint32_t by_rows = 0;
  int dims = -1;
  std::unique_ptr<cpu::RunFold> fold;

  int32_t node() const { return group.nodes.front(); }
};

struct Strip {
  // What lies in memory for so many rows only.
  struct Local {
    BufferId buffer;
    int64_t bytes;
  };
  std::vector<StripPart> parts;
  int64_t rows = 0, step = 0;  // rows in all, and at once
  std::vector<Local> local;

  bool is_local(BufferId buffer) const;
  // Calls f(buffer) for each buffer that a part uses.
  template <class F>
  void each_buffer(const Graph& graph, F&& f) const {
    for (const StripPart& part : parts) {
      for (const BufferId b : part.group.slots) f(b);
      if (part.kind == StripPart::Kind::Loop) continue;
      const Node& node = graph.nodes[part.node()];
      each_argument(node, [&](ValueId id) { f(graph.values[id].buffer); });
      each_result(node, [&](ValueId id) { f(graph.values[id].buffer); });
    }
  }
};

// How many leading dimensions have so many elements in all; -1 where none do.
int leading_dims(const Dims& sizes, int64_t rows);

// The strip that begins with the first of the groups, and takes as many of them as it has parts;
// without parts where the first runs by itself. Its rows at once read and write about so many
// bytes. Takes loops from the groups.
Strip find_strip(const Graph& graph, const GraphUses& uses, std::vector<Group>& groups,
                 size_t first, int64_t bytes);

}  // namespace moonlet::program
