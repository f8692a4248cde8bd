// interp/modules/modules.h: the modules in C++ beside tensors, which the standard library requires.
#pragma once

#include "lua.hpp"

// Module moonlet.bundles: scripts and files behind an executable: write(path, executable, inputs),
// list(path), read(path, name), check(path).
int luaopen_moonlet_bundles(lua_State* L);

// Module moonlet.json: encode(value) -> text, decode(text) -> value, and null, which stands for
// JSON's.
int luaopen_moonlet_json(lua_State* L);

// Module moonlet.numbers: format, tostring and tonumber as Lua's, without regard to the locale; and
// wrap(f), which gives a function that runs f so. The functions cannot yield.
int luaopen_moonlet_numbers(lua_State* L);

// Module moonlet.extension_tools: programs, locks, files and libraries for stdlib/ext/.
int luaopen_moonlet_extension_tools(lua_State* L);

// Module moonlet.distributed_engine: stores, ranks and groups of processes, by the plugins of
// Gloo and MPI: what stdlib/distributed/ is made of; unavailable(backend) -> nil, or why there is
// none.
int luaopen_moonlet_distributed_engine(lua_State* L);
// The field of the registry in which the command line keeps the message of the error that ends it,
// for what the end of the interpreter tells other processes.
inline constexpr const char* kScriptFailure = "moonlet.script_failure";

// Module moonlet.onnx_codec: the bytes of ONNX models from tables: encode(table, checked = true) ->
// bytes; check(bytes); unavailable() -> nil, or why.
int luaopen_moonlet_onnx_codec(lua_State* L);

// Module moonlet.raster: pages of shapes and texts as PNG pictures, by cairo: png(width, height,
// scale, items) -> bytes; unavailable() -> nil, or why it cannot draw.
int luaopen_moonlet_raster(lua_State* L);

// Module moonlet.regex: regular expressions over Unicode, by PCRE2: compile(pattern) -> an
// expression with spans(text) -> { first byte, last byte, ... } of its matches in their order, from
// 1; unavailable() -> nil, or why there are none.
int luaopen_moonlet_regex(lua_State* L);

// Module moonlet.system: files, terminal and clock for Lua.
int luaopen_moonlet_system(lua_State* L);

// Module moonlet.workers: threads with interpreters of their own.
int luaopen_moonlet_workers(lua_State* L);
