-- stdlib/nn/dicts.lua: modules that hold others, or parameters, by name: ModuleDict and
-- ParameterDict. They keep the order in which names came.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

local dicts = {}

-- What both share; a class says in `_holds` what kind its values are.
local Dict = class("Dict", Module)

local function name_of(self) return class.name(class.of(self)) end

-- { name, value } of each that is held, in order.
local function entries_of(self)
  local out = {}
  self:each_field(function(_, value, kind, key)
    if kind == self._holds then out[#out + 1] = { key, value } end
  end)
  return out
end

-- { name, value } in order, of a table by name, an array of such pairs, or another dict.
local function pairs_of(given)
  if class.is_instance(given, Dict) then return entries_of(given) end
  if #given > 0 then return given end
  local out = {}
  for name, value in pairs(given) do out[#out + 1] = { name, value } end
  table.sort(out, function(a, b) return tostring(a[1]) < tostring(b[1]) end)
  return out
end

local function check(self, name, value)
  if type(name) ~= "string" then
    fail("%s: names are strings, got %s", name_of(self), signature.describe(name))
  elseif self._holds == "module" then
    if Module.is_module(value) then return value end
    fail("%s: %s: a module is expected, got %s", name_of(self), name, signature.describe(value))
  elseif not ml.is_tensor(value) then
    fail("%s: %s: a tensor is expected, got %s", name_of(self), name, signature.describe(value))
  end
  return parameter.is_parameter(value) and value or parameter.new(value)
end

function Dict.__newindex(self, key, value)
  if value ~= nil and type(key) == "string" and key:sub(1, 1) ~= "_" then
    value = check(self, key, value)
  end
  Module.__newindex(self, key, value)
end

function Dict.__len(self) return #entries_of(self) end

-- `pairs(dict)` goes through the names and what they hold, in their order.
function Dict.__pairs(self)
  local entries, i = entries_of(self), 0
  return function()
    i = i + 1
    if entries[i] then return entries[i][1], entries[i][2] end
  end
end

local function fill(self, given)
  for _, entry in ipairs(pairs_of(given)) do
    if type(entry) ~= "table" then
      fail("%s: pairs { name, value } are expected, got %s", name_of(self),
        signature.describe(entry))
    end
    local name = entry[1]
    local value = check(self, name, entry[2])
    if rawget(self, name) ~= nil then rawset(self, name, value) else self[name] = value end
  end
  return self
end

local function given_to(read, ...)
  local given = ...
  return class.is_instance(given, Dict) and given or read(...)
end

local read_update = signature "Dict:update(dict values)"

--- Adds the values of a table, in either form that the constructor takes, or of another dict.
---@param values table
---@return table self
function Dict:update(...) return fill(self, given_to(read_update, ...)) end

--- The names in order.
---@return string[]
function Dict:keys()
  local out = {}
  for i, entry in ipairs(entries_of(self)) do out[i] = entry[1] end
  return out
end

--- The values in order.
---@return table[]
function Dict:values()
  local out = {}
  for i, entry in ipairs(entries_of(self)) do out[i] = entry[2] end
  return out
end

--- `for name, value in dict:items() do`, in order.
---@return fun(): string, any
function Dict:items()
  local list, i = entries_of(self), 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

--- Takes all out.
---@return table self
function Dict:clear()
  for _, entry in ipairs(entries_of(self)) do self:_forget(entry[1]) end
  return self
end

local read_pop = signature "Dict:pop(string key)"

--- Takes the value of that name out and returns it; there must be one.
---@param key string
---@return any
function Dict:pop(...)
  local key = read_pop(...)
  if rawget(self, key) == nil or self._registry.kind[key] ~= self._holds then
    fail("%s: there is no '%s'", name_of(self), key)
  end
  return self:_forget(key)
end

--- Modules by name: `dict.conv`, `dict:keys()`, `for name, module in dict:items()`.
--- `nn.ModuleDict { conv = a, pool = b }` takes them in the order of their names,
--- `nn.ModuleDict { { "pool", b }, { "conv", a } }` in that given.
local ModuleDict = class("ModuleDict", Dict)
dicts.ModuleDict = ModuleDict
ModuleDict._holds = "module"

local read_module_dict = signature "nn.ModuleDict(dict modules={})"

function ModuleDict:init(...) fill(self, given_to(read_module_dict, ...)) end

--- Parameters by name: `dict.scale`, `dict:keys()`, `for name, p in dict:items()`. Plain tensors
--- become parameters. `nn.ParameterDict { scale = a }`, or an array of { name, tensor } for an
--- order of its own.
local ParameterDict = class("ParameterDict", Dict)
dicts.ParameterDict = ParameterDict
ParameterDict._holds = "parameter"

local read_parameter_dict = signature "nn.ParameterDict(dict parameters={})"

function ParameterDict:init(...) fill(self, given_to(read_parameter_dict, ...)) end

--- Takes the last one out and returns its name and the parameter.
---@return string
---@return Tensor
function ParameterDict:popitem()
  local list = entries_of(self)
  local last = list[#list] or fail("ParameterDict: popitem of an empty one")
  return last[1], self:pop(last[1])
end

--- The parameter of that name, or `default`.
---@param key string
---@param default? any
---@return any
function ParameterDict:get(key, default)
  local value = rawget(self, key)
  if value == nil or self._registry.kind[key] ~= "parameter" then return default end
  return value
end

--- The parameter of that name; if there is none, `default` becomes it.
---@param key string
---@param default Tensor
---@return Tensor
function ParameterDict:setdefault(key, default)
  if self:get(key) == nil then self[key] = default end
  return self[key]
end

--- Another dict with the same parameters.
---@return table
function ParameterDict:copy() return ParameterDict(self) end

--- A dict with `default`, a tensor, under each of the names.
---@param keys string[]
---@param default Tensor
---@return table
function ParameterDict.fromkeys(keys, default)
  local out = ParameterDict()
  for _, key in ipairs(keys) do out[key] = default end
  return out
end

return dicts
