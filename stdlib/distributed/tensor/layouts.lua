-- stdlib/distributed/tensor/layouts.lua: what each rank of a group has of a tensor: all of it, or a
-- part along a dimension.

local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local layouts = {}

local read_shard = signature "distributed.tensor.Shard(int dim)"

--- Layout of a tensor of which each rank has a part along one dimension.
--- > ml.distributed.tensor.Shard(-1)
---   Shard(-1)
---@param dim integer the dimension, from 1; negative numbers count from the last
---@field dim integer The dimension.
---@see distributed.tensor.Replicate
local Shard = class "Shard"
layouts.Shard = Shard

function Shard:init(...)
  self.dim = read_shard(...)
  if self.dim == 0 then fail "Shard: 'dim' counts from 1, or from -1 for the last, got 0" end
end

function Shard:__tostring() return ("Shard(%d)"):format(self.dim) end

local read_replicate = signature "distributed.tensor.Replicate()"

--- Layout of a tensor that is the same on all ranks.
--- > ml.distributed.tensor.Replicate()
---   Replicate()
---@see distributed.tensor.Shard
local Replicate = class "Replicate"
layouts.Replicate = Replicate

function Replicate:init(...) read_replicate(...) end

function Replicate:__tostring() return "Replicate()" end

--- Whether a value is a layout.
---@param value any
---@return boolean
function layouts.is_layout(value)
  return class.is_instance(value, Shard) or class.is_instance(value, Replicate)
end

signature.add_type("Layout", "a layout, Shard(dim) or Replicate()", function(value)
  return layouts.is_layout(value) and value or nil
end)

--- The dimension, from 1, that a layout parts a tensor of that rank along; nil for one that is the
--- same on all ranks.
---@param where string what messages call the function
---@param layout table
---@param ndim integer
---@return integer?
function layouts.dim_of(where, layout, ndim)
  local dim = layout.dim
  if dim == nil then return nil end
  local at = dim < 0 and ndim + 1 + dim or dim
  if at < 1 or at > ndim then
    fail("%s: %s is no layout of a tensor of %d dimensions", where, tostring(layout), ndim)
  end
  return at
end

--- How many of `total` rows each rank has: as `chunk` parts them, the last ones fewer or none.
---@param total integer
---@param count integer
---@return integer[]
function layouts.chunk_sizes(total, count)
  local each, left, out = (total + count - 1) // count, total, {}
  for i = 1, count do
    out[i] = math.min(each, left)
    left = left - out[i]
  end
  return out
end

--- The same where all must have the same number.
---@param where string what messages call the function
---@param dim integer for the message
---@param total integer
---@param count integer
---@return integer[]
function layouts.even_sizes(where, dim, total, count)
  if total % count ~= 0 then
    fail("%s: %d ranks cannot share the %d elements of dimension %d evenly", where, count, total,
      dim)
  end
  return layouts.chunk_sizes(total, count)
end

--- The sum of the sizes before `position`, from 0, and the one there.
---@param sizes integer[]
---@param position integer
---@return integer before
---@return integer size
function layouts.range(sizes, position)
  local before = 0
  for i = 1, position do before = before + sizes[i] end
  return before, sizes[position + 1]
end

return layouts
