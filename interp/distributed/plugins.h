// interp/distributed/plugins.h: the plugins of processes that work together, opened on first use.
#pragma once

#include <string>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

// The plugin of a backend, "gloo" or "mpi"; of any that is there where it is empty. Throws why it
// is not there.
const Engine& engine_of(const std::string& backend = "");
// Why that would throw; empty where it would not.
std::string missing_reason(const std::string& backend);

}  // namespace moonlet::distributed
