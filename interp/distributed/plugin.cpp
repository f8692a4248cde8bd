// interp/distributed/plugin.cpp: what a plugin of several processes offers: stores, ranks, groups
// over the library that it is built with, and the start of processes. A plugin, so that programs
// of one process need none of the libraries.
#include "interp/distributed/engine.h"

#include "interp/distributed/file_store.h"
#include "interp/distributed/launch.h"
#include "interp/distributed/run.h"
#include "interp/distributed/store_client.h"
#include "interp/distributed/store_server.h"

namespace moonlet::distributed {
namespace {

std::shared_ptr<Store> connect(const Endpoint& endpoint, double seconds, const Tick& tick) {
  return std::make_shared<StoreClient>(endpoint, seconds, tick);
}

std::shared_ptr<Run> join(const Endpoint& endpoint, const std::string& run, int rank, int size,
                          double timeout, bool keeps_store, const Tick& tick) {
  return std::make_shared<RankRun>(endpoint, run, rank, size, timeout, keeps_store, tick);
}

}  // namespace
}  // namespace moonlet::distributed

extern "C"
    [[gnu::visibility("default")]] const moonlet::distributed::Engine moonlet_distributed_engine = {
        moonlet::distributed::kVersion, moonlet::distributed::serve_store,
        moonlet::distributed::connect,  moonlet::distributed::open_file_store,
        moonlet::distributed::join,     moonlet::distributed::launch};
