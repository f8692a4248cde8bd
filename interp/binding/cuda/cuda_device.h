// interp/binding/cuda/cuda_device.h: how functions of ml.cuda read a device, and the parts of
// ml.cuda.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// The number of a CUDA device that exists: a number from 0, "cuda:N", or nothing and "cuda" for the
// current one. Throws naming `op`.
int cuda_device_argument(lua_State* L, int index, const char* op);

// Adds what streams are made of to the table of ml.cuda on top of the stack.
void register_streams(lua_State* L);
// Adds what ml.backends.cudnn is made of to the same table.
void register_cudnn(lua_State* L);
// Adds the method to those of tensors, on top of the stack.
void register_record_stream(lua_State* L);

// Adds the functions behind stdlib/cuda/memory.lua to the module at -2.
void register_cuda_memory(lua_State* L);

}  // namespace moonlet::binding
