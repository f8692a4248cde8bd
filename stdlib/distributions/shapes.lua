-- stdlib/distributions/shapes.lua: arithmetic of shapes as arrays, and of tensors by their shapes.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local shapes = {}

-- The sizes of a plain array or of a tensor's shape, or nil.
local function sizes_of(value)
  local list = value
  if getmetatable(value) == "Shape" then
    list = value:tolist()
  elseif type(value) ~= "table" or getmetatable(value) then
    return nil
  end
  local out = {}
  for i = 1, #list do
    out[i] = math.tointeger(list[i])
    if not out[i] or out[i] < 0 then return nil end
  end
  return next(list, #list > 0 and #list or nil) == nil and out or nil
end

signature.add_type("Size", "an array of sizes of at least 0", sizes_of, true)

--- The shape of a tensor as an array.
---@param x Tensor
---@return integer[]
function shapes.of(x) return x.shape:tolist() end

--- The array as what tensors have as their shape.
---@param list integer[]
---@return moonlet.Shape
function shapes.object(list) return ml.broadcast_shapes(list) end

--- The arrays one behind the other.
---@param ... integer[]
---@return integer[]
function shapes.join(...)
  local out = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #out + 1, out) end
  return out
end

--- The elements from `first` to `last`, which may count from the end.
---@param list integer[]
---@param first integer
---@param last? integer (default -1)
---@return integer[]
function shapes.part(list, first, last)
  last = last or -1
  if last < 0 then last = #list + 1 + last end
  if first < 0 then first = math.max(#list + 1 + first, 1) end
  return table.move(list, first, last, 1, {})
end

--- Whether two arrays hold the same.
---@param a integer[]
---@param b integer[]
---@return boolean
function shapes.equal(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- How many elements a shape has.
---@param list integer[]
---@return integer
function shapes.numel(list)
  local count = 1
  for _, size in ipairs(list) do count = count * size end
  return count
end

--- An array of `count` ones.
---@param count integer
---@return integer[]
function shapes.ones(count)
  local out = {}
  for i = 1, count do out[i] = 1 end
  return out
end

--- How an array reads in messages: "(2, 3)".
---@param list integer[]
---@return string
function shapes.text(list) return tostring(shapes.object(list)) end

--- The shape that the arrays broadcast to; what they are of stands in the message if they do not.
---@param where string
---@param names string[]
---@param lists integer[][]
---@return integer[]
function shapes.broadcast(where, names, lists)
  local ok, found = pcall(ml.broadcast_shapes, table.unpack(lists))
  if ok then return found:tolist() end
  local parts = {}
  for i, name in ipairs(names) do
    parts[i] = ("'%s' of shape %s"):format(name, shapes.text(lists[i]))
  end
  fail("%s: %s do not broadcast", where, table.concat(parts, ", "))
end

--- The sum over the last `count` dimensions.
---@param x Tensor
---@param count integer
---@return Tensor
function shapes.sum_rightmost(x, count)
  if count == 0 then return x end
  local dims = {}
  for i = 1, count do dims[i] = -i end
  return x:sum(dims)
end

--- A tensor of one shape made into another by leaving its last `count` dimensions to one.
---@param x Tensor
---@param count integer
---@return Tensor
function shapes.flatten_last(x, count)
  local size = shapes.of(x)
  local last = shapes.numel(shapes.part(size, #size - count + 1))
  return x:reshape(shapes.join(shapes.part(size, 1, #size - count), { last }))
end

-- What numbers are made into beside these values.
local function options_of(values)
  local out = { dtype = ml.get_default_dtype() }
  for _, value in ipairs(values) do
    if ml.is_tensor(value) then
      out.device = out.device or value.device
      if value:is_floating_point() then
        out.dtype = value.dtype
        break
      end
    end
  end
  return out
end

--- The numbers and tensors of `values` as tensors of one shape; numbers get the dtype of the first
--- floating tensor and the device of the first, or the default ones.
---@param where string
---@param names string[]
---@param values any[]
---@return Tensor[]
function shapes.broadcast_all(where, names, values)
  local like, lists, out = options_of(values), {}, {}
  for i, value in ipairs(values) do
    out[i] = ml.is_tensor(value) and value or ml.tensor(value, like)
    lists[i] = shapes.of(out[i])
  end
  local size = shapes.broadcast(where, names, lists)
  for i, value in ipairs(out) do
    if not shapes.equal(lists[i], size) then out[i] = value:expand(size) end
  end
  return out
end

return shapes
