// tensor/program/jit/asmjit_stderr.cpp: the stream to which AsmJit writes before it gives up, under
// the name that it has in the copy of AsmJit's archive (tensor/meson.build).
#include <cstdio>

extern "C" [[gnu::visibility("hidden")]] FILE* moonlet_asmjit_stderr;
FILE* moonlet_asmjit_stderr = stderr;
