// interp/distributed/plugins.cpp: the plugins of processes that work together.
#include "interp/distributed/plugins.h"

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet::distributed {
namespace {

struct Loaded {
  const Engine* engine = nullptr;
  std::string reason;
};

Loaded load(const std::string& file, const char* variable, const char* library) {
  Loaded out;
  for (const std::string& position : plugin_paths(file, "interp/distributed", variable)) {
    std::string reason;
    void* handle = platform::open_library(position, platform::Binding::kNow, reason);
    if (handle == nullptr) {
      if (platform::exists(position)) out.reason = reason;
      continue;
    }
    const auto* engine = static_cast<const Engine*>(platform::find_symbol(handle, kEngine));
    if (engine != nullptr && engine->version == kVersion) return {engine, {}};
    out.reason = position + " was built for another Moonlet; build or install both together";
    platform::close_library(handle);
  }
  if (out.reason.empty())
    out.reason =
        text("this Moonlet was built without ", library, " (there is no ", file, " beside it)");
  return out;
}

const Loaded& loaded(const std::string& backend) {
  static const Loaded gloo = load("moonlet-distributed.so", "MOONLET_DISTRIBUTED_PLUGIN", "Gloo");
  if (backend == "gloo" || (backend.empty() && gloo.engine != nullptr)) return gloo;
  check(backend == "mpi" || backend.empty(), "distributed: there is no backend '", backend, "'");
  static const Loaded mpi =
      load("moonlet-distributed-mpi.so", "MOONLET_DISTRIBUTED_MPI_PLUGIN", "MPI");
  return backend.empty() && mpi.engine == nullptr ? gloo : mpi;
}

}  // namespace

const Engine& engine_of(const std::string& backend) {
  check(loaded(backend).engine != nullptr, loaded(backend).reason);
  return *loaded(backend).engine;
}

std::string missing_reason(const std::string& backend) { return loaded(backend).reason; }

}  // namespace moonlet::distributed
