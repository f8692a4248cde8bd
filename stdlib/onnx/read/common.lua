-- stdlib/onnx/read/common.lua: what the ops of ONNX files share: axes, lists of numbers in tensors,
-- and operands of two devices.

local ml = require "moonlet"

local common = {}

--- An error of an op, whose node is named where it is caught.
function common.fail(format, ...) error(format:format(...), 0) end
local fail = common.fail

--- A dimension from 1 of an axis from 0 (or from the end) of a tensor of `rank` dimensions.
---@param axis integer
---@param rank integer
---@return integer
function common.dim(axis, rank)
  if math.type(axis) ~= "integer" or axis < -rank or axis >= rank then
    fail("the axis %s is not one of %d dimensions", tostring(axis), rank)
  end
  return axis < 0 and axis + rank + 1 or axis + 1
end

--- Such dimensions of a list; all where there is none.
function common.dims(axes, rank)
  local out = {}
  if not axes then
    for d = 1, rank do out[d] = d end
    return out
  end
  for i, axis in ipairs(axes) do out[i] = common.dim(axis, rank) end
  return out
end

-- The numbers of a list that says sizes, axes or parts.
local MOST_NUMBERS = 4096

--- An error where `count` things of `width` bytes are more than a run may hold.
function common.check_room(node, count, width)
  local fits = count <= node.limit // width  -- a NaN does not
  if not fits then
    fail("%s elements are more than %d bytes", tostring(count), node.limit)
  end
end

--- The whole numbers in a tensor of one dimension, or of one element.
function common.integers(tensor, what)
  if tensor.ndim > 1 or not tostring(tensor.dtype):find "^u?int" then
    fail("%s must be a list of integers, got %s of shape %s", what, tostring(tensor.dtype),
      tostring(tensor.shape))
  end
  if tensor:numel() > MOST_NUMBERS then
    fail("%s is a list of %d numbers, at most %d are read", what, tensor:numel(), MOST_NUMBERS)
  end
  return tensor:flatten():tolist()
end

--- One number in a tensor.
function common.number(tensor, what)
  if not ml.is_tensor(tensor) then fail("%s must be one number", what) end
  if tensor:numel() ~= 1 or tensor:is_complex() then fail("%s must be one number", what) end
  if tensor.dtype == ml.bool then fail("%s must be a number, got bool", what) end
  return tensor:flatten()[1]:item()
end

--- A number as float32 has it: where places are rounded, other runtimes have computed them so.
function common.single(x)
  return (string.unpack("<f", string.pack("<f", x)))
end

--- A list that older files have as an attribute and newer ones as an input.
function common.list(node, name, tensor)
  if tensor then return common.integers(tensor, name) end
  return node.attributes[name]
end

--- Two tensors on one device: numbers and shapes that graphs compute are on the CPU.
function common.together(a, b)
  if a.device == b.device then return a, b end
  if a.device == "cpu" then return a:to(b.device), b end
  return a, b:to(a.device)
end

--- Positions from 0 as positions from 1 of `size` entries; negative ones count from the end.
function common.positions(index, size)
  local from_one = index + 1
  if index:numel() == 0 then return from_one end
  return ml.where(index:lt(0), from_one + size, from_one)
end

--- Whole numbers from `first` on.
function common.range(first, count, device)
  if count <= 0 then return ml.empty({ 0 }, { dtype = ml.int64, device = device }) end
  return ml.arange(first, first + count - 1):to("int64"):to(device)
end

--- An attribute that must be what it is left out as.
function common.only(node, name, value)
  local given = node.attributes[name]
  if given ~= nil and given ~= value then
    fail("the attribute '%s' can only be %s here", name, tostring(value))
  end
end

return common
