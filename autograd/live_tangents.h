// autograd/live_tangents.h: the tangents of each level of forward mode, which end with it.
#pragma once

#include <memory>

#include "autograd/meta.h"

namespace moonlet {

// Notes new tangents, for the levels that they are of.
void note_tangents(const std::shared_ptr<Tangents>& tangents);
// Takes those of a level that has ended from all that are noted.
void end_tangents(uint64_t level);

}  // namespace moonlet
