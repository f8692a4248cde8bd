// interp/distributed/file_store.h: a store in a file that all processes can reach.
#pragma once

#include <memory>
#include <string>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

std::shared_ptr<Store> open_file_store(const std::string& path);

}  // namespace moonlet::distributed
