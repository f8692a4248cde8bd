// cuda/loops/device_code.cpp: compiles sources for the capability of a device, once for all
// processes.
#include "cuda/loops/device_code.h"

#include "cuda/loops/cache.h"
#include "cuda/loops/device_headers.h"
#include "cuda/loops/nvrtc.h"
#include "cuda/runtime/device.h"
#include "tensor/io/cache_folder.h"
#include "tensor/io/sha256.h"

namespace moonlet::cuda::loops {

namespace {

// All that the code of a source depends on.
std::string key_of(const std::string& source, int capability, const std::string& more) {
  static const std::string headers = [] {
    std::string all;
    for (int i = 0; i < kDeviceHeaderCount; ++i)
      all += text(kDeviceHeaders[i].name, "\n", kDeviceHeaders[i].text, "\n");
    return io::to_hex(io::sha256(all));
  }();
  return text("nvrtc ", nvrtc().version(), "\n", nvrtc().options(capability), "\n", more,
              more.empty() ? "" : "\n", headers, "\n", source);
}

}  // namespace

int capability_of(int device, const char* op) {
  int major = 0, minor = 0;
  ensure(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), op);
  ensure(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), op);
  return 10 * major + minor;
}

void load_code(const std::string& source, int capability, const std::string& more, const char* op,
               const std::function<bool(const std::string& code)>& load) {
  const std::string folder = io::cache_folder(), key = key_of(source, capability, more);
  if (const auto cached = read_cached(folder, key); cached && load(*cached)) return;
  const std::string code = nvrtc().compile(source, capability, more);
  check(load(code), op, ": the device does not take the code that NVRTC made");
  write_cached(folder, key, code);
}

}  // namespace moonlet::cuda::loops
