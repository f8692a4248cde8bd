-- stdlib/distributed/shards.lua: which part of a whole tensor a tensor is: of parameters, gradients
-- and states that ranks have sharded.

local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local collectives = require "moonlet.distributed.collectives"

local shards = {}

-- By tensor: `shape`, the sizes of the whole; `first`, where the part begins in each dimension,
-- from 1; `group`, the ranks that have the other parts. A part of a part has `outer`, what the
-- larger one is, and `inner`, where it lies in that: `shape` and `first`; its group shares the
-- larger one. A part of several `pieces` has functions `gather` and `take` in the place of `first`.
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

--- The rows of a position when `count` rows are sharded: the first one, from 1, and how many.
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

-- What the ranks of a group share, of which each has the part that begins at `first`.
local function gathered(tensor, shape, first, group)
  local parts, list = {}, {}
  objects.all_gather_object(parts, { first = first, shape = tensor.shape:totable() },
    { group = group })
  local like = { dtype = tensor.dtype, device = tensor.device }
  for i, part in ipairs(parts) do list[i] = ml.empty(part.shape, like) end
  collectives.all_gather(list, tensor:detach():contiguous(), { group = group })
  local whole = ml.empty(shape, like)
  for i, part in ipairs(parts) do
    shards.narrow(whole, part.first, part.shape):copy_(list[i])
    list[i]:free()
  end
  return whole
end

--- The whole that a tensor is a part of, on all ranks of its group, which must all call this;
--- detached. A tensor that is whole is given as it is.
---@param tensor moonlet.Tensor
---@return moonlet.Tensor
function shards.whole(tensor)
  local spec = specs[tensor]
  if not spec then return tensor:detach() end
  if spec.outer then
    local part = gathered(tensor, spec.inner.shape, spec.inner.first, spec.group)
    return shards.whole(shards.note(part, spec.outer))
  elseif spec.gather then
    return spec.gather(tensor)
  end
  return gathered(tensor, spec.shape, spec.first, spec.group)
end

--- The part of a whole that a spec says, of those sizes.
---@param whole moonlet.Tensor
---@param spec table
---@param sizes integer[]
---@return moonlet.Tensor
function shards.part(whole, spec, sizes)
  if spec.outer then
    whole = shards.part(whole, spec.outer, spec.inner.shape)
    return shards.narrow(whole, spec.inner.first, sizes)
  end
  return spec.take and spec.take(whole) or shards.narrow(whole, spec.first, sizes)
end

--- What a part of the rows of a tensor is, where that is a part already.
---@param tensor moonlet.Tensor
---@param spec table what the part would be of a whole tensor
---@return table
function shards.within(tensor, spec)
  local outer = specs[tensor]
  if not outer then return spec end
  local first = table.move(outer.first, 1, #outer.first, 1, {})
  first[1] = first[1] + spec.first[1] - 1
  return { shape = outer.shape, first = first, group = spec.group, outer = outer,
    pieces = outer.pieces, inner = { shape = spec.shape, first = spec.first } }
end

return shards
