-- interp/package/emit_extension_abi.lua: writes extension_abi.h: what extensions are compiled
-- against, told by a fingerprint of the code of all installed headers, without their comments.
-- usage: emit_extension_abi.lua SOURCE_FOLDER BUILD_FOLDER OUTPUT DEPFILE

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local closure = require "header_closure"

local source, build, output, depfile = table.unpack(arg)

local file = [[
// moonlet/extension_abi.h: generated: the ABI of extensions. A library says its own in this string,
// which is looked for in its file before it is opened.
#pragma once

#include <version>

#include "interp/version.h"

#ifdef _LIBCPP_VERSION
#define MOONLET_STANDARD_LIBRARY "libc++"
#elif _GLIBCXX_USE_CXX11_ABI
#define MOONLET_STANDARD_LIBRARY "libstdc++"
#else
#define MOONLET_STANDARD_LIBRARY "libstdc++ with old strings"
#endif

namespace moonlet {

inline constexpr char kExtensionAbi[] = "moonlet-extension-abi: " MOONLET_VERSION_STRING
    " headers $hash, " MOONLET_STANDARD_LIBRARY;

}  // namespace moonlet
]]

-- FNV-1a of 64 bits.
local function hash(text)
  local out = 0xcbf29ce484222325
  for i = 1, #text do out = (out ~ text:byte(i)) * 0x100000001b3 end
  return ("%016x"):format(out)
end

local function exists(path)
  local found = io.open(path, "rb")
  return found ~= nil and found:close()
end

local names, parts, depends = {}, {}, {}
local texts = closure.texts({ source, build }, closure.ROOTS, nil, true)
texts["interp/extension_abi.h"] = nil
for name, text in pairs(texts) do
  if text then names[#names + 1] = name end
end
table.sort(names)
for i, name in ipairs(names) do
  local code = texts[name]:gsub("//[^\n]*", ""):gsub("%s+", " ")
  parts[i] = name .. "\n" .. code
  depends[i] = exists(source .. "/" .. name) and source .. "/" .. name or build .. "/" .. name
end
assert(#names > 50, "the headers that are installed were not found")

local out = assert(io.open(output, "w"))
out:write((file:gsub("%$hash", hash(table.concat(parts, "\n")))))
assert(out:close())
local list = assert(io.open(depfile, "w"))
list:write(output, ": ", (table.concat(depends, " "):gsub("\\", "/")), "\n")
assert(list:close())
