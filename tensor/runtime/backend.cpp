// tensor/runtime/backend.cpp: finds and opens the CUDA plugin beside the program or the library, in
// the build folder or where both are installed.
#include "tensor/runtime/backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tensor/core/dispatch.h"
#include "tensor/op_table_hash.h"
#include "tensor/runtime/missing_library.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet {

namespace {
struct Loaded {
  Backend* backend = nullptr;
  std::string reason;
};

// The plugin resolves our symbols in the global scope; a host may have loaded us privately.
void make_own_symbols_global() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&make_own_symbols_global), &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

std::string build_text(uint64_t version, uint64_t op_table) {
  char out[64];
  std::snprintf(out, sizeof out, "plugin version %llu, op table %016llx",
                static_cast<unsigned long long>(version),
                static_cast<unsigned long long>(op_table));
  return out;
}

// Why the plugin at `position` does not belong to this program; empty when it does.
std::string misfit(void* handle, const std::string& position) {
  const auto* info = static_cast<const PluginInfo*>(dlsym(handle, kPluginInfo));
  if (!info || std::memcmp(info->magic, kPluginMagic, sizeof kPluginMagic) != 0)
    return position +
           " does not say what it was built for: it is no plugin, or of an older Moonlet";
  if (info->version == kPluginVersion && info->op_table == kOpTableHash) return {};
  return position + " was built for another Moonlet (" + build_text(info->version, info->op_table) +
         ") than this one (" + build_text(kPluginVersion, kOpTableHash) +
         "); build or install both together";
}

// Opens the plugin at `position`; null with the reason otherwise.
void* open_plugin(const std::string& position, std::string& reason) {
  void* handle = open_with_libraries(position, RTLD_NOW | RTLD_LOCAL, reason);
  if (handle) {
    reason = misfit(handle, position);
    if (reason.empty()) return handle;
    dlclose(handle);
    return nullptr;
  }
  // One of another build may want functions that are gone. It is never kept open like this, where a
  // missing function would end the process.
  if (void* lazy = dlopen(position.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    const std::string unfit = misfit(lazy, position);
    if (!unfit.empty()) reason = unfit;
    dlclose(lazy);
  }
  return nullptr;
}

Loaded load() {
  Loaded out;
  const std::vector<std::string> positions =
      plugin_paths("moonlet-cuda.so", "cuda", "MOONLET_CUDA_PLUGIN");
  make_own_symbols_global();
  void* handle = nullptr;
  for (const std::string& position : positions) {
    // One position alone is what the environment names.
    if (access(position.c_str(), F_OK) != 0 && positions.size() > 1) continue;
    handle = open_plugin(position, out.reason);
    if (handle) break;
  }
  if (!handle) {
    if (out.reason.empty()) out.reason = "this Moonlet was built without the CUDA backend";
    return out;
  }
  auto entry = reinterpret_cast<BackendEntry>(dlsym(handle, kBackendEntry));
  if (!entry) {
    out.reason = "the plugin has no entry " + std::string(kBackendEntry);
    return out;
  }
  out.reason.clear();
  out.backend = entry(&out.reason);
  return out;
}

std::atomic<Backend*> ready{nullptr};

const Loaded& loaded() {
  static const Loaded once = [] {
    Loaded out = load();
    ready.store(out.backend);
    return out;
  }();
  return once;
}
}  // namespace

Backend* cuda_backend() { return loaded().backend; }

Backend* loaded_cuda_backend() noexcept { return ready.load(); }

const std::string& cuda_unavailable_reason() { return loaded().reason; }

void fail_forked(const char* op) {
  fail(op,
       ": CUDA cannot be used here: this process was forked from one that uses it; fork before the "
       "first use of CUDA, or start another process");
}

void require_device(Device device, const char* op) {
  if (device.is_cpu()) return;
  Backend* backend = cuda_backend();
  if (backend && !kernel_table(DeviceType::CUDA)) fail_forked(op);
  if (!backend) fail(op, ": there is no CUDA device: ", cuda_unavailable_reason());
  const int count = backend->device_count();
  if (device.index >= count)
    fail(op, ": there is no device ", device, "; this machine has ", count, " CUDA device",
         count == 1 ? "" : "s");
}

}  // namespace moonlet
