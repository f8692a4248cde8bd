-- stdlib/onnx/strings.lua: ONNX's tensors of strings: a list of strings with a shape. Scripts give
-- and get them as nested tables, and one string as a string.

local ml = require "moonlet"

local Strings = {}
Strings.__index = Strings

--- Strings of a shape: the list has them row by row.
---@param list string[]
---@param shape integer[]
---@return table
function Strings.new(list, shape)
  return setmetatable({ list = list, shape = shape, ndim = #shape }, Strings)
end

function Strings.is(value) return getmetatable(value) == Strings end

function Strings:numel() return #self.list end

--- The bytes of all strings.
function Strings:bytes()
  local total = 0
  for _, text in ipairs(self.list) do total = total + #text + 48 end
  return total
end

local function flatten(value, depth, shape, list)
  if type(value) == "string" then
    if shape.rank and shape.rank ~= depth then return false end
    shape.rank = depth
    list[#list + 1] = value
    return true
  end
  if type(value) ~= "table" or getmetatable(value) ~= nil or depth >= 16 then return false end
  shape[depth + 1] = shape[depth + 1] or #value
  if shape[depth + 1] ~= #value then return false end
  for _, item in ipairs(value) do
    if not flatten(item, depth + 1, shape, list) then return false end
  end
  return true
end

--- The strings of a string or of nested tables of strings that are all of one size, or nil.
---@param value any
---@return table?
function Strings.of(value)
  local shape, list = {}, {}
  if not flatten(value, 0, shape, list) then return nil end
  if shape.rank and #shape ~= shape.rank then return nil end
  shape.rank = nil
  return Strings.new(list, shape)
end

--- As nested tables; strings without dimensions are a string.
---@return any
function Strings:nested()
  local at = 0
  local function level(d)
    if d > self.ndim then
      at = at + 1
      return self.list[at]
    end
    local out = {}
    for i = 1, self.shape[d] do out[i] = level(d + 1) end
    return out
  end
  return level(1)
end

--- Strings of the shape of `positions`, a tensor of places in the list from 1.
function Strings:at(positions)
  local out = {}
  for i, place in ipairs(positions:flatten():tolist()) do out[i] = self.list[place] end
  local shape = {}
  for d, size in ipairs(positions.shape) do shape[d] = size end
  return Strings.new(out, shape)
end

--- The places of the strings in the list, from 1, in their shape: what an op that only moves
--- elements does to them it does to the strings.
function Strings:places()
  local count = #self.list
  if count == 0 then return ml.empty(self.shape, { dtype = ml.int64 }) end
  return ml.arange(1, count):to("int64"):reshape(self.shape)
end

return Strings
