// cuda/loops/nvrtc.cpp: opens NVRTC and compiles sources with it.
#include "cuda/loops/nvrtc.h"

#include <cuda_runtime.h>
#include <nvrtc.h>

#include <memory>
#include <vector>

#include "cuda/libraries/library.h"
#include "cuda/loops/device_headers.h"
#include "tensor/core/error.h"

namespace moonlet::cuda::loops {

namespace {

// What the standard headers are: device_std.h has a part of all.
constexpr const char* kStandard[] = {"bit",     "cmath",  "complex",     "cstdint",
                                     "cstring", "limits", "type_traits", "math.h"};
constexpr const char* kStandardText = "#include \"cuda/loops/device_std.h\"\n";

std::string library_file() {
#ifdef MOONLET_CUDA_EMULATED
  return "libmoonlet-nvrtc-emulated.so";
#else
  return "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
#endif
}

}  // namespace

#define MOONLET_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                  \
  X(nvrtcGetErrorString)           \
  X(nvrtcCreateProgram)            \
  X(nvrtcDestroyProgram)           \
  X(nvrtcCompileProgram)           \
  X(nvrtcGetProgramLogSize)        \
  X(nvrtcGetProgramLog)            \
  X(nvrtcGetCUBINSize)             \
  X(nvrtcGetCUBIN)

struct Nvrtc::Functions {
#define MOONLET_NVRTC_POINTER(name) decltype(&::name) name = nullptr;
  MOONLET_NVRTC_FUNCTIONS(MOONLET_NVRTC_POINTER)
#undef MOONLET_NVRTC_POINTER
  bool find(void* library) {
    bool whole = library != nullptr;
#define MOONLET_NVRTC_FIND(name) whole = whole && find_in(library, #name, this->name);
    MOONLET_NVRTC_FUNCTIONS(MOONLET_NVRTC_FIND)
#undef MOONLET_NVRTC_FIND
    return whole;
  }
};

Nvrtc::Nvrtc(const char* file, int version) {
  auto functions = std::make_unique<Functions>();
  if (!functions->find(open_library("nvrtc", file))) return;
  int major = 0, minor = 0;
  if (functions->nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) return;
  version_ = 1000 * major + 10 * minor;
  usable_ = version == 0 || version == version_;
  functions_ = functions.release();
}

std::string Nvrtc::options(int capability) const {
  return text("--gpu-architecture=sm_", capability,
              "\n--std=c++20\n--device-as-default-execution-space");
}

std::string Nvrtc::compile(const std::string& source, int capability,
                           const std::string& more) const {
  const Functions& f = *functions_;
  std::vector<const char*> names, texts;
  for (const char* each : kStandard) {
    names.push_back(each);
    texts.push_back(kStandardText);
  }
  for (int i = 0; i < kDeviceHeaderCount; ++i) {
    names.push_back(kDeviceHeaders[i].name);
    texts.push_back(kDeviceHeaders[i].text);
  }
  nvrtcProgram program = nullptr;
  const auto ensure_made = [&](nvrtcResult result) {
    check(result == NVRTC_SUCCESS, "nvrtc: ", f.nvrtcGetErrorString(result));
  };
  ensure_made(f.nvrtcCreateProgram(&program, source.c_str(), "loop.cu",
                                   static_cast<int>(names.size()), texts.data(), names.data()));
  struct Destroy {
    const Functions& f;
    nvrtcProgram program;
    ~Destroy() { f.nvrtcDestroyProgram(&program); }
  } const at_end{f, program};
  std::vector<std::string> lines;
  const std::string all = options(capability) + (more.empty() ? "" : "\n" + more);
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  std::vector<const char*> options;
  for (const std::string& each : lines) options.push_back(each.c_str());
  const nvrtcResult result =
      f.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    size_t bytes = 0;
    std::string log;
    if (f.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS) {
      log.resize(bytes);
      f.nvrtcGetProgramLog(program, log.data());
    }
    fail("nvrtc: ", f.nvrtcGetErrorString(result), "\n", log.c_str());
  }
  size_t bytes = 0;
  ensure_made(f.nvrtcGetCUBINSize(program, &bytes));
  std::string code(bytes, '\0');
  ensure_made(f.nvrtcGetCUBIN(program, code.data()));
  return code;
}

const Nvrtc& nvrtc() {
  static const Nvrtc once(library_file().c_str(), CUDART_VERSION);
  return once;
}

}  // namespace moonlet::cuda::loops
