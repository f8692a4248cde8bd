-- stdlib/torch7.lua: the module `torch` of Torch7: tensors, storages, classes and files as its
-- scripts expect them, on the same memory and kernels as `ml`.

local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local torch = require "moonlet.torch7.namespace"
local tensors = require "moonlet.torch7.tensor"

class.add_to(torch)
for _, name in ipairs { "print", "arithmetic", "reduce", "shape", "linear", "random", "lapack",
  "file", "objects", "tester", "cmdline", "timer" } do
  require("moonlet.torch7." .. name)
end

local default = "torch.DoubleTensor"

--- Says which class `torch.Tensor` is.
---@param name string such as "torch.FloatTensor"
function torch.setdefaulttensortype(name)
  local mt = type(name) == "string" and class.getmetatable(name)
  if not mt or not mt.__is_tensor then
    error(("setdefaulttensortype: %s is no type of tensors"):format(tostring(name)), 2)
  end
  default = name
  torch.Tensor = class.getconstructortable(name)
  torch.Storage = torch[mt.__element .. "Storage"]
end

function torch.getdefaulttensortype() return default end
torch.setdefaulttensortype(default)

--- One of Torch7's tensors on the memory of a native one; `x:tensor()` goes the other way.
torch.from = tensors.from

--- A number that tells objects apart while they live.
function torch.pointer(value)
  local kind = type(value)
  if kind == "string" then return value end
  if torch.isStorage(value) then return ml._classes.id(value) end
  if kind == "nil" or kind == "number" or kind == "boolean" then
    error("pointer: a tensor, a table or a function is expected, got " .. kind, 2)
  end
  return tonumber((("%p"):format(value):gsub("^0x", "")), 16)
end

--- Whether two values are one object.
function torch.isequal(a, b)
  if torch.isStorage(a) and torch.isStorage(b) then
    return ml._classes.id(a) == ml._classes.id(b)
  end
  return rawequal(a, b)
end

torch.setnumthreads, torch.getnumthreads = ml.set_num_threads, ml.get_num_threads
torch.getnumcores = ml.get_num_threads

-- Moonlet pays Lua's collector for tensors by itself.
torch._heaptracking = true
function torch.setheaptracking(flag) torch._heaptracking = flag == true end
function torch.updateerrorhandlers() end
function torch.updatethreadlocals() torch.setheaptracking(torch._heaptracking) end

function torch.isatty(file)
  return require("moonlet.system").isatty(file == io.stderr and 2 or file == io.stdin and 0 or 1)
end

--- The folder of a package on Lua's path.
function torch.packageLuaPath(name)
  if not name then return nil end
  local path = package.searchpath(name, package.path)
  return path and path:match "^(.*)[/\\]"
end

function torch.include(package_name, file)
  local folder = torch.packageLuaPath(package_name)
  if not folder then error(("include: there is no package '%s'"):format(package_name), 2) end
  return dofile(folder .. "/" .. file)
end

-- Runs a file beside the one that calls.
function _G.include(file, depth)
  local info = debug.getinfo(2 + (depth or 0), "S")
  local folder = info and info.source:match "^@(.*[/\\])" or ""
  return dofile(folder .. file)
end

-- What is behind a tensor: the native one, which files do not write.
core.each_class(function(mt) mt.cdata = mt.tensor end)

-- The functions behind nn's layers, which upstream loads from a library in C.
package.preload["nn.THNN"] = function() return require "moonlet.torch7.thnn" end

-- Packages that come with Torch7, where the script's path has none.
local OWN = { paths = true, sys = true, xlua = true, cutorch = true, moses = true, nn = true,
  optim = true, cunn = true, lfs = true, pl = true }
table.insert(package.searchers, function(name)
  if OWN[name] then return function() return require("moonlet.torch7." .. name) end end
  local part = name:match "^pl%.(%a+)$"
  if part == "path" or part == "lapp" then
    return function() return require("moonlet.torch7.pl")[part] end
  end
  return nil
end)

_G.torch = torch

return torch
