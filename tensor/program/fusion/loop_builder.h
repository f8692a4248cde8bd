// tensor/program/fusion/loop_builder.h: writes the loop of nodes that run together.
#pragma once

#include "tensor/program/fusion/cluster.h"
#include "tensor/program/fusion/loop.h"

namespace moonlet::program {

// The loop of nodes, in their order, over an extent that refines each one's; `slots` gets the
// buffer of each slot. What nothing sees afterwards is neither computed nor stored.
Loop build_loop(const GraphUses& uses, const std::vector<int32_t>& nodes, const Extent& extent,
                std::vector<BufferId>& slots);
// Whether that loop has no more operands than it may.
bool fits(const GraphUses& uses, const std::vector<int32_t>& nodes, const Extent& extent);

}  // namespace moonlet::program
