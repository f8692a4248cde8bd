// interp/distributed/launch.h: the processes of the ranks on this machine, from start to end.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

std::vector<RankEnd> launch(
    const std::vector<Rank>& ranks,
    const std::function<void(int rank, bool error, std::string_view line)>& line, const Tick& tick);

}  // namespace moonlet::distributed
