-- stdlib/nn/containers.lua: modules that hold others in order: Sequential, ModuleList; and
-- ParameterList. Positions count from 1 and negative ones from the end; the names of what stands
-- there, in state dicts and printed trees, count from 0.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

local containers = {}

-- What Sequential, ModuleList and ParameterList share. A Sequential may have names in the place of
-- positions, so what holds is the order of the fields.
local List = class("List", Module)

local function name_of(self) return class.name(class.of(self)) end

-- The keys of the items in order.
local function keys_of(self)
  local out = {}
  for _, key in ipairs(self._registry.order) do
    if rawget(self, key) ~= nil and self._registry.kind[key] == self._holds then
      out[#out + 1] = key
    end
  end
  return out
end

-- Makes `items`, each { key, value }, the items: those with positions get the ones they stand at.
-- Other fields, such as buffers, stay.
local function refill(self, items)
  local registry, others = self._registry, {}
  for _, key in ipairs(registry.order) do
    if registry.kind[key] == self._holds then
      rawset(self, key, nil)
      registry.kind[key] = nil
    else
      others[#others + 1] = key
    end
  end
  registry.order = {}
  for i, item in ipairs(items) do
    local key = math.type(item[1]) == "integer" and i or item[1]
    rawset(self, key, item[2])
    registry.order[i], registry.kind[key] = key, self._holds
  end
  table.move(others, 1, #others, #items + 1, registry.order)
end

local function items_of(self)
  local items = {}
  for i, key in ipairs(keys_of(self)) do items[i] = { key, rawget(self, key) } end
  return items
end

--- Moves up what stands after a position that was set to nil.
function List:_close_gaps()
  for i, key in ipairs(keys_of(self)) do
    if math.type(key) == "integer" and key ~= i then return refill(self, items_of(self)) end
  end
end

local function check_item(self, where, value)
  if self._holds == "parameter" then
    return parameter.is_parameter(value) and value or parameter.new(value)
  elseif not Module._module_of(value) then
    fail("%s: a module is expected, got %s", where, signature.describe(value))
  end
  return value
end

List._is_list = true

function List.__len(self) return #keys_of(self) end

local function next_of_items(items, i)
  local item = items[i + 1]
  if item then return i + 1, item[2] end
end

-- `pairs(list)` goes through the items, as `ipairs(list)` does, not through the object's fields.
function List.__pairs(self) return next_of_items, items_of(self), 0 end

-- The items from one position to another, both included, as a list of the same class.
local function slice(self, range)
  local items, out = items_of(self), class.of(self)()
  local first, last, step = range[1] or 1, range[2] or -1, range[3] or 1
  for i, name in ipairs { "first", "last", "step" } do
    if range[i] ~= nil and math.type(range[i]) ~= "integer" or #range > 3 then
      fail("%s: a range is { first, last, step }, got the %s %s", name_of(self), name,
        tostring(range[i]))
    end
  end
  if step < 1 then fail("%s: the step %d must be at least 1", name_of(self), step) end
  if first < 0 then first = #items + 1 + first end
  if last < 0 then last = #items + 1 + last end
  for i = math.max(first, 1), math.min(last, #items), step do
    local key, item = items[i][1], items[i][2]
    out:append(type(key) == "string" and { key, item } or item)
  end
  return out
end

function List.__index(self, key)
  if type(key) == "table" and getmetatable(key) == nil then return slice(self, key) end
  if math.type(key) ~= "integer" then return class.lookup(self, key) end
  local keys = keys_of(self)
  return rawget(self, keys[key < 0 and #keys + 1 + key or key])
end

-- `list[i] = value` puts it in the place of the i-th, or after the last one.
function List.__newindex(self, key, value)
  if math.type(key) ~= "integer" then return Module.__newindex(self, key, value) end
  local keys = keys_of(self)
  local at = key < 0 and #keys + 1 + key or key
  if value == nil and keys[at] then
    self[keys[at]] = nil
    return self:_close_gaps()
  elseif at < 1 or at > #keys + 1 then
    fail("%s: position %d is out of range; there are %d", name_of(self), key, #keys)
  elseif value ~= nil then
    value = check_item(self, ("%s: item %d"):format(name_of(self), at), value)
    if keys[at] then rawset(self, keys[at], value) else Module.__newindex(self, at, value) end
  end
end

-- `a + b`: a list of the class of `a` with the items of both.
function List.__add(a, b)
  if not (class.is_instance(a, List) and class.is_instance(b, List)) then
    fail("%s: two lists are expected", name_of(class.is_instance(a, List) and a or b))
  end
  return class.of(a)():extend(a):extend(b)
end

local read_append = signature "List:append(any item)"

--- Adds a module, or to a ParameterList a parameter, at the end.
--- > ml.nn.ModuleList():append(ml.nn.Linear(2, 3))
---   ModuleList(                   9
---     (0): Linear(2 -> 3)         9
---   )
---   9 parameters
---@param item any what to add
---@return table self
function List:append(...)
  self[#self + 1] = read_append(...)
  return self
end

local read_extend = signature "List:extend(table items)"

--- Adds all items of an array, or of another list, at the end.
--- > #ml.nn.ModuleList():extend { ml.nn.Linear(2, 3), ml.nn.ReLU() }
---   2
---@param items table the array or list
---@return table self
function List:extend(...)
  local items = ...
  if not class.is_instance(items, List) then items = read_extend(...) end
  for _, item in ipairs(items) do self:append(item) end
  return self
end

local read_insert = signature "List:insert(int index, any item)"

--- Inserts an item before the one at an index.
--- > ml.nn.ModuleList({ ml.nn.ReLU() }):insert(1, ml.nn.Linear(2, 3))
---   ModuleList(                   9
---     (0): Linear(2 -> 3)         9
---     (1): ReLU()
---   )
---   9 parameters
---@param index integer the index, from 1, that the item will have; negative numbers count from the
---   end
---@param item any what to insert
---@return table self
function List:insert(...)
  local index, item = read_insert(...)
  local items = items_of(self)
  local at = index < 0 and #items + 1 + index or index
  if at < 1 or at > #items + 1 then
    fail("insert: position %d is out of range; there are %d", index, #items)
  end
  table.insert(items, at, { at, check_item(self, "insert", item) })
  refill(self, items)
  return self
end

local read_pop = signature "List:pop(int index=-1)"

--- Removes the item at an index.
--- > ml.nn.ModuleList({ ml.nn.ReLU(), ml.nn.Linear(2, 3) }):pop()
---   Linear(2 -> 3)         9
---   9 parameters
---@param index? integer the index, from 1; negative numbers count from the end
---@return any item what was removed
function List:pop(...)
  local index = read_pop(...)
  local items = items_of(self)
  local at = index < 0 and #items + 1 + index or index
  if not items[at] then
    fail("pop: position %d is out of range; there are %d", index, #items)
  end
  local item = table.remove(items, at)
  refill(self, items)
  return item[2]
end

List._holds = "module"

--- Modules in a sequence: each gets the result of the one before. The modules are the arguments, or
--- an array of pairs { name, module }. `seq[1]` and `seq.name` are modules, `seq[{ 2, 3 }]` is a
--- Sequential of the second and third, `a + b` one of both, `seq * 3` one with the same modules
--- three times, `#seq` the number of modules. In state dicts the first module is named "0".
--- > ml.nn.Sequential(ml.nn.Linear(2, 8), ml.nn.ReLU(), ml.nn.Linear(8, 1))
---   Sequential(                  33
---     (0): Linear(2 -> 8)        24
---     (1): ReLU()
---     (2): Linear(8 -> 1)         9
---   )
---   33 parameters
---@param ... the modules in their order, or one array of pairs { name, module }
---@shape input as the first module's -> output as the last module's
---@formula y = f_n(... f_2(f_1(x)))
local Sequential = class("Sequential", List)
containers.Sequential = Sequential

signature "nn.Sequential(Module... modules)"

function Sequential:init(...)
  local items = { ... }
  if select("#", ...) == 1 and type(items[1]) == "table" and not getmetatable(items[1]) then
    items = items[1]
  end
  local count = items == ... and #items or select("#", ...)
  if next(items) ~= nil and #items == 0 and count == 0 then
    fail("Sequential: modules are expected, or an array of { name, module }")
  end
  for i = 1, count do self:append(items[i]) end
end

--- Adds a module at the end.
--- > ml.nn.Sequential(ml.nn.Linear(2, 8)):append(ml.nn.ReLU())
---   Sequential(                  24
---     (0): Linear(2 -> 8)        24
---     (1): ReLU()
---   )
---   24 parameters
---@param item table a module, or a pair { name, module }
---@return table self
function Sequential:append(item)
  local position = #self + 1
  local where = ("Sequential: layer %d"):format(position)
  local name = position
  if type(item) == "table" and not getmetatable(item) and type(item[1]) == "string" then
    name, item = item[1], item[2]
  end
  if rawget(self, name) ~= nil then fail("%s: the name '%s' is taken", where, name) end
  Module.__newindex(self, name, check_item(self, where, item))
  return self
end

-- `seq * 3`: the modules, not copies of them, three times.
function Sequential.__mul(a, b)
  if class.is_instance(b, Sequential) then a, b = b, a end
  if math.type(b) ~= "integer" or b < 1 then
    fail("Sequential: an integer of at least 1 is expected to repeat it, got %s", tostring(b))
  end
  local out = Sequential()
  for _ = 1, b do
    for _, module in ipairs(a) do out:append(module) end
  end
  return out
end

function Sequential:forward(x, ...)
  if select("#", ...) > 0 then
    fail("Sequential: takes one argument, got %d", select("#", ...) + 1)
  end
  local order, kind = self._registry.order, self._registry.kind
  for i = 1, #order do
    local key = order[i]
    local module = rawget(self, key)
    if module ~= nil and kind[key] == "module" then x = module(x) end
  end
  return x
end

--- List of modules without a forward of its own. `list[i]` counts from 1, negative numbers from the
--- end; `list[{ 2, 3 }]` is a list of the second and third, `a + b` one of both, `#list` the number
--- of modules; `ipairs(list)` goes through them. In state dicts the first module is named "0".
--- > ml.nn.ModuleList { ml.nn.Linear(2, 3), ml.nn.Linear(3, 1) }
---   ModuleList(                  13
---     (0): Linear(2 -> 3)         9
---     (1): Linear(3 -> 1)         4
---   )
---   13 parameters
---@param modules an array of modules, or another list
---@shape none: a list has no forward
local ModuleList = class("ModuleList", List)
containers.ModuleList = ModuleList

local read_module_list = signature "nn.ModuleList(Module[] modules={})"

function ModuleList:init(...)
  local given = ...
  self:extend(class.is_instance(given, List) and given or read_module_list(...))
end

--- List of parameters. Tensors that are no parameters become ones. `list[i]` counts from 1, `list[{
--- 2, 3 }]` is a list of the second and third, `#list` the number of parameters; `ipairs(list)`
--- goes through them.
--- > #ml.nn.ParameterList { ml.ones(2), ml.zeros(3) }
---   2
---@param values an array of tensors, or another list
---@shape values (*), ...; a list has no forward
local ParameterList = class("ParameterList", List)
containers.ParameterList = ParameterList
ParameterList._holds = "parameter"

local read_parameter_list = signature "nn.ParameterList(Tensor[] values={})"

function ParameterList:init(...)
  local given = ...
  self:extend(class.is_instance(given, List) and given or read_parameter_list(...))
end

return containers
