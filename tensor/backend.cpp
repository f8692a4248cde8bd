// tensor/backend.cpp: finds and opens the CUDA plugin beside the program, in the build folder or
// in the installed place.
#include "tensor/backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "moonlet_config.h"

namespace moonlet {

namespace {
struct Loaded {
  Backend* backend = nullptr;
  std::string reason;
};

// The folder of the file this code was loaded from (the executable or libmoonlet).
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_folder), &info) || !info.dli_fname) return ".";
  std::string path = info.dli_fname;
  if (char* real = realpath(path.c_str(), nullptr)) {
    path = real;
    free(real);
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// The plugin resolves our symbols in the global scope; a host may have loaded us privately.
void make_own_symbols_global() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&make_own_symbols_global), &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

Loaded load() {
  Loaded out;
  std::vector<std::string> places;
  if (const char* path = std::getenv("MOONLET_CUDA_PLUGIN")) {
    places = {path};
  } else {
    const std::string own = own_folder();
    const std::string installed = MOONLET_PLUGIN_DIR "/moonlet-cuda.so";
    places = {own + "/moonlet-cuda.so", own + "/cuda/moonlet-cuda.so",
              own + "/../cuda/moonlet-cuda.so", own + "/../lib/moonlet/moonlet-cuda.so", installed};
  }
  make_own_symbols_global();
  void* handle = nullptr;
  for (const std::string& place : places) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) break;
    const char* error = dlerror();
    if (std::string_view(error).find("No such file") == std::string_view::npos ||
        places.size() == 1)
      out.reason = error;
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
  out.backend = entry(&out.reason);
  return out;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}
}  // namespace

Backend* cuda_backend() { return loaded().backend; }

const std::string& cuda_unavailable_reason() { return loaded().reason; }

void require_device(Device device, const char* op) {
  if (device.is_cpu()) return;
  Backend* backend = cuda_backend();
  if (!backend) fail(op, ": there is no CUDA device: ", cuda_unavailable_reason());
  const int count = backend->device_count();
  if (device.index >= count)
    fail(op, ": there is no device ", device, "; this machine has ", count, " CUDA device",
         count == 1 ? "" : "s");
}

}  // namespace moonlet
