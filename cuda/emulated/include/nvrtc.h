// cuda/emulated/include/nvrtc.h: the part of NVRTC 13 that the backend uses, with NVIDIA's values,
// answered by the host's compiler where MOONLET_EMULATED_NVRTC in the environment names one: code
// is then a shared library.
#pragma once

#include <cstddef>

using nvrtcProgram = struct _nvrtcProgram*;

enum nvrtcResult {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
  NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_PROGRAM = 4,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
};

extern "C" {
nvrtcResult nvrtcVersion(int* major, int* minor);
const char* nvrtcGetErrorString(nvrtcResult result);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int count, const char* const* headers, const char* const* names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code);
}
