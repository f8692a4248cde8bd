// interp/binding/device/device_module.h: how functions of the module of a kind of device, as
// ml.cuda, read a device, and the parts of the module. The kind is the first upvalue of each
// function.
#pragma once

#include "lua.hpp"
#include "tensor/runtime/backend.h"

namespace moonlet::binding {

// The kind that the running function is for.
DeviceType module_type(lua_State* L);
// Its backend; throws naming `op` where it cannot be used.
Backend& module_backend(lua_State* L, const char* op);
// The number of a device of that kind that exists: a number from 0, "cuda:N", or nothing and "cuda"
// for the current one. Throws naming `op`.
int device_argument(lua_State* L, int index, const char* op);
// Adds functions for that kind to the table on top of the stack.
void set_module_functions(lua_State* L, DeviceType type, const luaL_Reg* functions);

// Adds what streams are made of to the table of the module on top of the stack.
void register_streams(lua_State* L, DeviceType type);
// Adds what ml.cuda.kernel is made of to the same table.
void register_raw_kernels(lua_State* L, DeviceType type);
// Adds what ml.backends.cudnn is made of to the same table.
void register_cudnn(lua_State* L, DeviceType type);
// Adds the method to those of tensors, on top of the stack.
void register_record_stream(lua_State* L);

// Adds the functions behind stdlib/cuda/memory.lua and graphs.lua to the module at -2.
void register_device_memory(lua_State* L, DeviceType type);
void register_device_graphs(lua_State* L, DeviceType type);

}  // namespace moonlet::binding
