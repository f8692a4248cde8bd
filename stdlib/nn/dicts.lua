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
    if Module._module_of(value) then return value end
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

--- Adds or replaces values.
--- > ml.nn.ModuleDict():update { act = ml.nn.ReLU() }
---   ModuleDict(
---     (act): ReLU()
---   )
---   0 parameters
---@param values table what to add, in a form that the constructor takes
---@return table self
function Dict:update(...) return fill(self, given_to(read_update, ...)) end

--- The names, in order.
--- > ml.nn.ModuleDict({ { "conv", ml.nn.Conv1d(1, 1, 3) }, { "act", ml.nn.ReLU() } }):keys()
---   {"conv", "act"}
---@return string[]
function Dict:keys()
  local out = {}
  for i, entry in ipairs(entries_of(self)) do out[i] = entry[1] end
  return out
end

--- The modules or parameters, in the order of their names in the dict.
--- > ml.nn.ModuleDict({ act = ml.nn.ReLU() }):values()
---   {ReLU() ...}
---@return table[]
function Dict:values()
  local out = {}
  for i, entry in ipairs(entries_of(self)) do out[i] = entry[2] end
  return out
end

--- Iterator over names and values, in order: `for name, value in dict:items() do`.
--- > ml.nn.ModuleDict({ act = ml.nn.ReLU() }):items()()
---   act
---   ReLU()
---   0 parameters
---@return fun(): string, any
function Dict:items()
  local list, i = entries_of(self), 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

--- Removes all values.
--- > #ml.nn.ModuleDict({ act = ml.nn.ReLU() }):clear()
---   0
---@return table self
function Dict:clear()
  for _, entry in ipairs(entries_of(self)) do self:_forget(entry[1]) end
  return self
end

local read_pop = signature "Dict:pop(string key)"

--- Removes the value of a name.
--- > ml.nn.ModuleDict({ act = ml.nn.ReLU() }):pop("act")
---   ReLU()
---   0 parameters
---@param key string the name
---@return any value what was removed
---@error there is no value of that name
function Dict:pop(...)
  local key = read_pop(...)
  if rawget(self, key) == nil or self._registry.kind[key] ~= self._holds then
    fail("%s: there is no '%s'", name_of(self), key)
  end
  return self:_forget(key)
end

--- Modules by name, in an order. `dict.name` is a module, `#dict` the number of modules. From a
--- table by name the modules come in the order of their names, from an array of pairs { name,
--- module } in that of the array.
--- > ml.nn.ModuleDict { { "conv", ml.nn.Conv1d(1, 1, 3) }, { "act", ml.nn.ReLU() } }
---   ModuleDict(                                4
---     (conv): Conv1d(1 -> 1, kernel 3)         4
---     (act): ReLU()
---   )
---   4 parameters
---@param modules a table of modules by name, an array of pairs { name, module }, or another dict
---@shape none: a dict has no forward
local ModuleDict = class("ModuleDict", Dict)
dicts.ModuleDict = ModuleDict
ModuleDict._holds = "module"

local read_module_dict = signature "nn.ModuleDict(dict modules={})"

function ModuleDict:init(...) fill(self, given_to(read_module_dict, ...)) end

--- Parameters by name, in an order. Tensors that are no parameters become ones. `dict.name` is a
--- parameter, `#dict` the number of parameters. From a table by name they come in the order of
--- their names, from an array of pairs { name, tensor } in that of the array.
--- > ml.nn.ParameterDict({ scale = ml.ones(2), shift = ml.zeros(2) }):keys()
---   {"scale", "shift"}
---@param parameters a table of tensors by name, an array of pairs { name, tensor }, or another dict
---@shape parameters (*), ...; a dict has no forward
local ParameterDict = class("ParameterDict", Dict)
dicts.ParameterDict = ParameterDict
ParameterDict._holds = "parameter"

local read_parameter_dict = signature "nn.ParameterDict(dict parameters={})"

function ParameterDict:init(...) fill(self, given_to(read_parameter_dict, ...)) end

--- Removes the last parameter.
--- > dict = ml.nn.ParameterDict { scale = ml.ones(2) }
--- > dict:popitem()
---   scale
---   {1., 1.}
---   Tensor (2,) float32 requires_grad
---@return string name its name
---@return Tensor parameter the parameter
---@error the dict is empty
function ParameterDict:popitem()
  local list = entries_of(self)
  local last = list[#list] or fail("ParameterDict: popitem of an empty one")
  return last[1], self:pop(last[1])
end

--- The parameter of a name, or a default.
--- > dict = ml.nn.ParameterDict { scale = ml.ones(2) }
--- > dict:get("shift", "none")
---   none
---@param key string the name
---@param default? any the result where there is no parameter of that name
---@return any
function ParameterDict:get(key, default)
  local value = rawget(self, key)
  if value == nil or self._registry.kind[key] ~= "parameter" then return default end
  return value
end

--- The parameter of a name, which is first set to a default if there is none.
--- > dict = ml.nn.ParameterDict { scale = ml.ones(2) }
--- > dict:setdefault("shift", ml.zeros(2))
---   {0., 0.}
---   Tensor (2,) float32 requires_grad
---@param key string the name
---@param default Tensor the tensor that becomes the parameter
---@return Tensor
function ParameterDict:setdefault(key, default)
  if self:get(key) == nil then self[key] = default end
  return self[key]
end

--- Another dict with the same parameters.
--- > dict = ml.nn.ParameterDict { scale = ml.ones(2) }
--- > dict:copy().scale
---   {1., 1.}
---   Tensor (2,) float32 requires_grad
---@return table
function ParameterDict:copy() return ParameterDict(self) end

--- Dict with the same tensor under each of several names.
--- > ml.nn.ParameterDict.fromkeys({ "a", "b" }, ml.ones(2)):keys()
---   {"a", "b"}
---@param keys string[] the names
---@param default Tensor the tensor, which becomes a parameter of its own for each name unless it is
---   one
---@return table
---@shape default (*)
function ParameterDict.fromkeys(keys, default)
  local out = ParameterDict()
  for _, key in ipairs(keys) do out[key] = default end
  return out
end

return dicts
