// tensor/runtime/plugin.cpp: finds and opens the plugin of a backend beside the program or the
// library, in the build folder or where both are installed.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/op_table_hash.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/missing_library.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet {

namespace {
// The plugin resolves our symbols in the global scope; a host may have loaded us privately.
void make_own_symbols_global() {
  platform::share_symbols_of(reinterpret_cast<void*>(&make_own_symbols_global));
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
  const auto* info = static_cast<const PluginInfo*>(platform::find_symbol(handle, kPluginInfo));
  if (!info || std::memcmp(info->magic, kPluginMagic, sizeof kPluginMagic) != 0)
    return position +
           " does not say what it was built for: it is no plugin, or of an older Moonlet";
  if (info->version == kPluginVersion && info->op_table == kOpTableHash) return {};
  return position + " was built for another Moonlet (" + build_text(info->version, info->op_table) +
         ") than this one (" + build_text(kPluginVersion, kOpTableHash) +
         "); build or install both together";
}

// Opens the plugin at `position`; null with the reason otherwise.
void* open_plugin(const std::string& position, const std::string& toolkit, std::string& reason) {
  void* handle = open_with_libraries(position, toolkit, reason);
  if (handle) {
    reason = misfit(handle, position);
    if (reason.empty()) return handle;
    platform::close_library(handle);
    return nullptr;
  }
  // One of another build may want functions that are gone. It is never kept open like this, where a
  // missing function would end the process.
  std::string ignored;
  if (void* lazy = platform::open_library(position, platform::Binding::kLazy, ignored)) {
    const std::string unfit = misfit(lazy, position);
    if (!unfit.empty()) reason = unfit;
    platform::close_library(lazy);
  }
  return nullptr;
}

// "MOONLET_CUDA_PLUGIN"
std::string variable_of(const std::string& name) {
  std::string out = "MOONLET_";
  for (const char c : name) out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out + "_PLUGIN";
}
}  // namespace

Backend* open_plugin_backend(DeviceType type, std::string* reason) {
  const std::string folder = name(type);
  const std::vector<std::string> positions =
      plugin_paths("moonlet-" + folder + ".so", folder, variable_of(folder).c_str());
  make_own_symbols_global();
  void* handle = nullptr;
  for (const std::string& position : positions) {
    // One position alone is what the environment names.
    if (!platform::exists(position) && positions.size() > 1) continue;
    handle = open_plugin(position, folder, *reason);
    if (handle) break;
  }
  if (!handle) {
    if (reason->empty())
      *reason = text("this Moonlet was built without the ", title_of(type), " backend");
    return nullptr;
  }
  auto entry = reinterpret_cast<BackendEntry>(platform::find_symbol(handle, kBackendEntry));
  if (!entry) {
    *reason = text("the plugin has no entry ", kBackendEntry);
    return nullptr;
  }
  reason->clear();
  return entry(type, reason);
}

}  // namespace moonlet
