-- stdlib/nn/lookup.lua: Module: parts of a module by their full names, as in state dicts.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local function name_of(self) return class.name(class.of(self)) end

-- The field of that name directly in a module: its value, kind and key.
local function field(self, name)
  local value, kind, key
  self:each_field(function(own, v, k, at)
    if own == name then value, kind, key = v, k, at end
  end)
  return value, kind, key
end

-- The module at `path`, "" being `self`.
local function walk(self, where, path)
  local at = self
  if path == "" then return at end
  for name in (path .. "."):gmatch "([^.]*)%." do
    local value, kind = field(at, name)
    if kind ~= "module" then
      fail("%s: %s has no module '%s'", where, name_of(self), path)
    end
    at = value
  end
  return at
end

-- The module that has the last name of `target`, and that name.
local function owner_of(self, where, target)
  local path, last = target:match "^(.*)%.([^.]*)$"
  return walk(self, where, path or ""), last or target
end

local read_get_submodule = signature "Module:get_submodule(string target)"

--- The module of a name, as in `named_modules`.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:get_submodule("0")
---   Linear(2 -> 3)         9
---   9 parameters
---@param target string the name, with dots: "features.0"
---@return table
---@error there is none
function Module:get_submodule(...)
  return walk(self, "get_submodule", (read_get_submodule(...)))
end

local read_set_submodule = signature(
  "Module:set_submodule(string target, Module module, bool strict=false)")

--- Replaces the module of a name.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:set_submodule("1", ml.nn.Tanh())
--- > net[2]
---   Tanh()
---   0 parameters
---@param target string the name, with dots: "features.0"
---@param module table the new module
---@param strict? boolean whether there must be one already; without, the last part of the name may
---   be new
function Module:set_submodule(...)
  local target, module, strict = read_set_submodule(...)
  if target == "" then fail("set_submodule: 'target' is empty") end
  local owner, last = owner_of(self, "set_submodule", target)
  local _, kind, key = field(owner, last)
  if kind and kind ~= "module" or strict and not kind then
    fail("set_submodule: %s has no module '%s'", name_of(self), target)
  end
  local number = math.tointeger(tonumber(last))
  owner[key or owner._is_list and number and number + 1 or last] = module
end

local function tensor_at(self, where, wanted, target)
  local owner, last = owner_of(self, where, target)
  local value, kind = field(owner, last)
  if kind ~= wanted then fail("%s: %s has no %s '%s'", where, name_of(self), wanted, target) end
  return value
end

local read_get_parameter = signature "Module:get_parameter(string target)"

--- The parameter of a name, as in `named_parameters`.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:get_parameter("0.weight").shape
---   (3, 2)
---@param target string the name, with dots: "fc.weight"
---@return Tensor
---@error there is none
function Module:get_parameter(...)
  return tensor_at(self, "get_parameter", "parameter", (read_get_parameter(...)))
end

local read_get_buffer = signature "Module:get_buffer(string target)"

--- The buffer of a name, as in `named_buffers`.
--- > ml.nn.BatchNorm1d(2):get_buffer("running_mean")
---   {0., 0.}
---   Tensor (2,) float32
---@param target string the name, with dots: "norm.running_mean"
---@return Tensor
---@error there is none
function Module:get_buffer(...)
  return tensor_at(self, "get_buffer", "buffer", (read_get_buffer(...)))
end

return Module
