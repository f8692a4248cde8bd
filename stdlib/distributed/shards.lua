-- stdlib/distributed/shards.lua: which part of a whole tensor a tensor is: of parameters, gradients
-- and states that ranks have shared out.

local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local collectives = require "moonlet.distributed.collectives"

local shards = {}

-- By tensor: `shape`, the sizes of the whole; `first`, where the part begins in each dimension, from
-- 1; `group`, the ranks that have the other parts.
local specs = setmetatable({}, { __mode = "k" })

--- Says that a tensor is a part.
---@param tensor moonlet.Tensor
---@param spec table
---@return moonlet.Tensor tensor
function shards.note(tensor, spec)
  specs[tensor] = spec
  return tensor
end

--- What part a tensor is, or nil for one that is whole.
---@param tensor moonlet.Tensor
---@return table?
function shards.of(tensor) return specs[tensor] end

--- The rows of a position when `count` rows are shared out: the first one, from 1, and how many.
--- All have as many but the last ones, which have less or none.
---@param count integer
---@param size integer how many share them
---@param position integer from 0
---@return integer first
---@return integer rows
function shards.rows(count, size, position)
  local most = (count + size - 1) // size
  local before = math.min(count, most * position)
  return before + 1, math.min(most, count - before)
end

--- The part of a tensor that begins at `first` and has the sizes `shape`: a view.
---@param tensor moonlet.Tensor
---@param first integer[]
---@param shape integer[]
---@return moonlet.Tensor
function shards.narrow(tensor, first, shape)
  for dim, from in ipairs(first) do tensor = tensor:narrow(dim, from, shape[dim]) end
  return tensor
end

--- The whole that a tensor is a part of, on all ranks of its group, which must all call this;
--- detached. A tensor that is whole is given as it is.
---@param tensor moonlet.Tensor
---@return moonlet.Tensor
function shards.whole(tensor)
  local spec = specs[tensor]
  if not spec then return tensor:detach() end
  local group, parts, list = spec.group, {}, {}
  objects.all_gather_object(parts, { first = spec.first, shape = tensor.shape:totable() },
    { group = group })
  local like = { dtype = tensor.dtype, device = tensor.device }
  for i, part in ipairs(parts) do list[i] = ml.empty(part.shape, like) end
  collectives.all_gather(list, tensor:detach():contiguous(), { group = group })
  local whole = ml.empty(spec.shape, like)
  for i, part in ipairs(parts) do
    shards.narrow(whole, part.first, part.shape):copy_(list[i])
    list[i]:free()
  end
  return whole
end

return shards
