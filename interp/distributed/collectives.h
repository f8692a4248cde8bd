// interp/distributed/collectives.h: the collectives of a group, by Gloo's algorithms.
#pragma once

#include <memory>

#include <gloo/context.h>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

// Runs a collective to its end. Throws what Gloo throws.
void run_collective(const std::shared_ptr<gloo::Context>& context, const Call& call);

// Sends, or receives; who it came from.
int run_transfer(gloo::Context& context, const Call& call);

}  // namespace moonlet::distributed
