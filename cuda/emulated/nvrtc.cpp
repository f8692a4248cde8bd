// cuda/emulated/nvrtc.cpp: NVRTC by the host's compiler. What it makes is a shared library, whose
// size comes before it.
#include "nvrtc.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"

namespace fs = std::filesystem;

struct _nvrtcProgram {
  std::string source, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
};

namespace {

std::string compiler() {
  const char* const name = std::getenv("MOONLET_EMULATED_NVRTC");
  return name ? name : "";
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A word of a command of the shell.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The library of the emulation, whose functions kernels call for barriers and shuffles.
std::string emulation() {
  Dl_info about{};
  const auto* const address = reinterpret_cast<const void*>(&cudaGetDeviceCount);
  return dladdr(address, &about) != 0 && about.dli_fname != nullptr ? about.dli_fname : "";
}

/// A folder that goes with this.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "moonlet-nvrtc-XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (compiler().empty()) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE: return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
  }
  return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int count,
                               const char* const* headers, const char* const* names) {
  if (!program || !source) return NVRTC_ERROR_INVALID_INPUT;
  auto* made = new _nvrtcProgram;
  made->source = source;
  // The host has the standard headers, whose names have no folder.
  for (int i = 0; i < count; ++i)
    if (std::strchr(names[i], '/')) made->headers.emplace_back(names[i], headers[i]);
  *program = made;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  std::string definitions;
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(options[i], "-D", 2) == 0)
      definitions += " " + quoted(options[i]);
    else if (std::strncmp(options[i], "--", 2) != 0)
      return NVRTC_ERROR_INVALID_OPTION;
  }
  const Folder folder;
  if (folder.path.empty()) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  for (const auto& [name, text] : program->headers) write(folder.path / name, text);
  write(folder.path / "loop.cpp", program->source);
  const std::string at = folder.path.string();
  const std::string command =
      compiler() + " -std=c++20 -shared -fPIC -O1 -fno-math-errno -w -DMOONLET_CUDA_EMULATED" +
      definitions + " -I" + at + " -I" + quoted(MOONLET_EMULATED_FOLDER "/include") + " -I" +
      quoted(MOONLET_EMULATED_FOLDER) + " -o " + at + "/loop.so " + at + "/loop.cpp " +
      quoted(emulation()) + " >" + at + "/log 2>&1";
  const int status = std::system(command.c_str());
  program->log = contents(folder.path / "log");
  if (status != 0) return NVRTC_ERROR_COMPILATION;
  const std::string library = contents(folder.path / "loop.so");
  const std::uint64_t size = library.size();
  program->code.assign(reinterpret_cast<const char*>(&size), sizeof size);
  program->code += library;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes) {
  if (!program || !bytes) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  if (!program || !log) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) {
  if (!program || !bytes) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = program->code.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  if (!program || !code) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(code, program->code.data(), program->code.size());
  return NVRTC_SUCCESS;
}

}  // extern "C"
