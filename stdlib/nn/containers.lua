-- stdlib/nn/containers.lua: modules that hold others: Sequential, ModuleList, ModuleDict; and
-- ParameterList.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local fail = options.fail

local containers = {}

local function check_module(where, value)
  if not Module.is_module(value) then
    fail("%s: a module is wanted, got %s", where, type(value))
  end
  return value
end

-- { module, ... }, or a list of such given as one table.
local function items_of(...)
  local items = { ... }
  if select("#", ...) == 1 and type(items[1]) == "table" and not getmetatable(items[1]) then
    return items[1]
  end
  return items
end

--- Modules one after the other: `nn.Sequential(a, b)`, or named: `nn.Sequential { { "conv", a },
--- { "pool", b } }`. `seq[1]` and `seq.conv` are the modules, `#seq` their number.
local Sequential = class("Sequential", Module)
containers.Sequential = Sequential

function Sequential:init(...)
  local items = items_of(...)
  for i = 1, #items do self:append(items[i]) end
end

--- Adds a module, or a `{ name, module }`, at the end.
function Sequential:append(item)
  local position = #self + 1
  local where = ("Sequential: layer %d"):format(position)
  local name = position
  if type(item) == "table" and not getmetatable(item) and type(item[1]) == "string" then
    name, item = item[1], item[2]
  end
  if rawget(self, name) ~= nil then fail("%s: the name '%s' is taken", where, name) end
  self[name] = check_module(where, item)
  return self
end

local function nth(self, i)
  local count = 0
  for _, key in ipairs(self._registry.order) do
    if rawget(self, key) ~= nil then
      count = count + 1
      if count == i then return rawget(self, key) end
    end
  end
  return nil
end

function Sequential.__index(self, key)
  if math.type(key) ~= "integer" then return class.lookup(self, key) end
  return nth(self, key < 0 and #self + 1 + key or key)
end

function Sequential.__len(self)
  local count = 0
  for _, key in ipairs(self._registry.order) do
    if rawget(self, key) ~= nil then count = count + 1 end
  end
  return count
end

function Sequential:forward(x)
  local order = self._registry.order
  for i = 1, #order do
    local module = rawget(self, order[i])
    if module ~= nil then x = module(x) end
  end
  return x
end

--- A list of modules that has no forward of its own: `list[i]`, `#list`, `ipairs(list)`.
local ModuleList = class("ModuleList", Module)
containers.ModuleList = ModuleList

function ModuleList:init(items)
  self:extend(items or {})
end

--- Adds a module at the end.
function ModuleList:append(item)
  local position = #self + 1
  self[position] = check_module(("ModuleList: item %d"):format(position), item)
  return self
end

--- Adds all modules of an array.
function ModuleList:extend(items)
  for _, item in ipairs(items) do self:append(item) end
  return self
end

local function raw_length(self) return rawlen(self) end

ModuleList.__len = raw_length

--- Modules by name: `dict.conv`, `dict:keys()`, `for name, module in dict:named_children()`.
local ModuleDict = class("ModuleDict", Module)
containers.ModuleDict = ModuleDict

function ModuleDict:init(items)
  local names = {}
  for name in pairs(items or {}) do
    if type(name) ~= "string" then fail("ModuleDict: names are strings, got %s", type(name)) end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do self[name] = check_module("ModuleDict: " .. name, items[name]) end
end

--- The names in order.
function ModuleDict:keys()
  local keys = {}
  for name in self:named_children() do keys[#keys + 1] = name end
  return keys
end

function ModuleDict.__len(self) return #self:keys() end

--- A list of parameters: `list[i]`, `#list`, `ipairs(list)`. Plain tensors become parameters.
local ParameterList = class("ParameterList", Module)
containers.ParameterList = ParameterList

function ParameterList:init(items)
  for _, item in ipairs(items or {}) do self:append(item) end
end

--- Adds a parameter at the end.
function ParameterList:append(item)
  self[#self + 1] = parameter.is_parameter(item) and item or parameter.new(item)
  return self
end

ParameterList.__len = raw_length

return containers
