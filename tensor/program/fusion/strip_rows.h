// tensor/program/fusion/strip_rows.h: what a group does row by row, while strips are found.
#pragma once

#include <optional>
#include <vector>

#include "tensor/program/fusion/cluster.h"
#include "tensor/program/fusion/group.h"
#include "tensor/program/fusion/strip.h"

namespace moonlet::program {

// Bytes of a buffer that a part reads or writes.
struct RowAccess {
  BufferId buffer = kNone;
  bool is_write = false;
  // In each row those from low to high, so many bytes further than in the row before; where that
  // is 0, in any row all of them.
  int64_t stride = 0;
  int64_t low = 0, high = 0;

  int64_t end(int64_t rows) const { return high + (rows - 1) * stride; }
};

// A group that can be a part of a strip, for some numbers of rows.
struct RowGroup {
  StripPart::Kind kind = StripPart::Kind::Loop;
  uint32_t by_rows = 0;
  int dims = -1;
  int64_t elements = 0;       // that are computed
  std::vector<int64_t> rows;  // the numbers of rows, the largest first
  bool any_rows = false;      // besides those, whatever divides its elements
  bool checks = false;        // may raise an error for elements
};
// Nothing where no order of its own allows that.
std::optional<RowGroup> row_group(const Graph& graph, const Group& group);

// What it reads and writes in so many rows, and what a number of rows at once must be a multiple
// of, and must divide (0: nothing).
struct RowPlan {
  std::vector<RowAccess> accesses;
  int64_t multiple = 1, divides = 0;
};
std::optional<RowPlan> row_plan(const Graph& graph, const Group& group, const RowGroup& is,
                                int64_t rows);

// A loop whose inner dimensions are one row's elements.
struct SplitLoop {
  int inner = 0, outer = 0;
  int64_t sizes[kMaxDims] = {};        // inner ones, then outer ones
  std::vector<Loop::Memory> operands;  // loads, then stores
};
std::optional<SplitLoop> split_loop(const Loop& loop, int64_t rows);

}  // namespace moonlet::program
