// interp/distributed/store_server.h: the store that other processes reach by TCP.
#pragma once

#include <memory>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

std::unique_ptr<Server> serve_store(const Endpoint& endpoint);

}  // namespace moonlet::distributed
