-- stdlib/distributions/properties.lua: fields that functions of the class give: the mean of a
-- distribution, the domain of a transform.

local ml = require "moonlet"

local properties = {}

local Property = {}

--- What stands in a class for a field that `get` gives of each object.
---@param get fun(self: table): any
---@param fields? table what the property says of itself
---@return table
function properties.new(get, fields)
  local property = { get = get }
  for key, value in pairs(fields or {}) do property[key] = value end
  return setmetatable(property, Property)
end

--- Whether a value is such a property.
---@param value any
---@return boolean
function properties.is_property(value)
  return type(value) == "table" and getmetatable(value) == Property
end

local function writer(cls, fields)
  return setmetatable({}, { __newindex = function(_, key, get)
    cls[key] = properties.new(get, fields)
  end })
end

--- A table whose functions become fields of the objects of `cls`: `function get:mean() .. end`.
---@param cls table
---@return table
function properties.of(cls) return writer(cls) end

--- The same for fields that are computed once, with gradients, and kept.
---@param cls table
---@return table
function properties.lazy(cls) return writer(cls, { lazy = true }) end

--- What the classes of `object` say of `key`, without running a property.
---@param object table
---@param key any
---@return any
function properties.find(object, key)
  local cls = getmetatable(object)
  while cls do
    local value = rawget(cls, key)
    if value ~= nil then return value end
    cls = rawget(cls, "super")
  end
end

--- The `__index` of a class with properties.
---@param self table
---@param key any
---@return any
function properties.index(self, key)
  local value = properties.find(self, key)
  if not properties.is_property(value) then return value end
  if not value.lazy then return value.get(self) end
  local found = ml.enable_grad(value.get, self)
  rawset(self, key, found)
  return found
end

return properties
