-- stdlib/distributed/tensor/redistribute.lua: one layout of a tensor made another, with gradients.
-- Each rank computes the same loss: what all have has the same gradient on all of them, and what
-- each has a part of has that part of the gradient. So the gradient of each op here is another one
-- here, and all can be differentiated again.

local collectives = require "moonlet.distributed.collectives"
local layouts = require "moonlet.distributed.tensor.layouts"
local ml = require "moonlet"
local state = require "moonlet.distributed.state"
local work = require "moonlet.distributed.work"

local redistribute = {}

local definitions = {}
local op = work.ops(definitions)

local function define(schema, forward, gradient)
  return { "shards_" .. schema, forward = forward, grad = { x = gradient } }
end

local function with_size(x, dim, size)
  local shape = x.shape:totable()
  shape[dim] = size
  return ml.empty(shape, { dtype = x.dtype, device = x.device })
end

local function all_equal(sizes)
  for i = 2, #sizes do
    if sizes[i] ~= sizes[1] then return false end
  end
  return true
end

local function gathered(x, dim, sizes, number)
  local group = state.groups[number]
  if not all_equal(sizes) then
    local list = {}
    for i, size in ipairs(sizes) do list[i] = with_size(x, dim, size) end
    collectives.all_gather(list, x, { group = group })
    return ml.cat(list, dim)
  end
  local shape = x.shape:totable()
  table.insert(shape, 1, group.size)
  local y = ml.empty(shape, { dtype = x.dtype, device = x.device })
  collectives.all_gather_into_tensor(y, x, { group = group })
  if dim == 1 then return y:flatten(1, 2) end
  return ml.cat(y:unbind(1), dim)
end

local function own_part(x, dim, sizes, number)
  local before, size = layouts.range(sizes, state.groups[number].rank)
  return x:narrow(dim, before + 1, size):clone()
end

local function summed(x, number)
  local y = x:contiguous():clone()
  collectives.all_reduce(y, "sum", { group = state.groups[number] })
  return y
end

-- What all have, for computations of which each rank does a part: the gradient is the sum of what
-- they find.
definitions.copy = define("copy(Tensor x, int group) -> Tensor",
  function(x) return x:view(x.shape) end,
  function(g, values) return op.sum(g, values.group) end)

-- The sum of what the ranks have computed, on all of them.
definitions.sum = define("sum(Tensor x, int group) -> Tensor", summed,
  function(g, values) return op.copy(g, values.group) end)

-- The parts as a whole that all compute the same with.
definitions.gather = define("gather(Tensor x, int dim, int[*] sizes, int group) -> Tensor",
  gathered,
  function(g, values) return op.split(g, values.dim, values.sizes, values.group) end)

-- The part of this rank of what all have.
definitions.split = define("split(Tensor x, int dim, int[*] sizes, int group) -> Tensor", own_part,
  function(g, values) return op.gather(g, values.dim, values.sizes, values.group) end)

-- The parts as a whole with which each rank computes a part: the sum of its gradients is sharded.
definitions.gather_copy = define(
  "gather_copy(Tensor x, int dim, int[*] sizes, int group) -> Tensor", gathered,
  function(g, values) return op.sum_split(g, values.dim, values.sizes, values.group) end)

-- This rank's part of the sum of what the ranks have computed.
definitions.sum_split = define("sum_split(Tensor x, int dim, int[*] sizes, int group) -> Tensor",
  function(x, dim, sizes, number)
    local group = state.groups[number]
    local list, at = {}, 1
    for i, size in ipairs(sizes) do
      list[i], at = x:narrow(dim, at, size), at + size
    end
    local y = with_size(x, dim, sizes[group.rank + 1])
    collectives.reduce_scatter(y, list, "sum", { group = group })
    return y
  end,
  function(g, values) return op.gather_copy(g, values.dim, values.sizes, values.group) end)

-- Parts along one dimension as parts along another.
definitions.turn = define(
  "turn(Tensor x, int from, int[*] from_sizes, int to, int[*] to_sizes, int group) -> Tensor",
  function(x, from, from_sizes, to, to_sizes, number)
    local group = state.groups[number]
    local sent, received, at = {}, {}, 1
    for i, size in ipairs(to_sizes) do
      sent[i], at = x:narrow(to, at, size):contiguous(), at + size
      received[i] = with_size(with_size(x, from, from_sizes[i]), to, to_sizes[group.rank + 1])
    end
    collectives.all_to_all(received, sent, { group = group })
    return ml.cat(received, from)
  end,
  function(g, v)
    return op.turn(g, v.to, v.to_sizes, v.from, v.from_sizes, v.group)
  end)

-- --- what layers call ---------------------------------------------------------------------------

-- How the ranks share a dimension: as `total` is sharded where the layer knows it, else evenly.
local function sizes_here(where, x, dim, group, total)
  if total then return layouts.chunk_sizes(total, group.size) end
  return layouts.even_sizes(where, dim, x:size(dim), group.size)
end

local function sizes_of_parts(x, dim, group, total)
  return layouts.chunk_sizes(total or x:size(dim) * group.size, group.size)
end

--- What all have, as that with which each rank computes a part.
---@param x moonlet.Tensor
---@param group table
---@return moonlet.Tensor
function redistribute.copy(x, group)
  if group.size == 1 or not (x.requires_grad and ml.is_grad_enabled()) then return x end
  return op.copy(x, group.number)
end

--- The sum of what the ranks have computed, on all of them.
---@param x moonlet.Tensor
---@param group table
---@return moonlet.Tensor
function redistribute.sum(x, group)
  if group.size == 1 then return x end
  return op.sum(x, group.number)
end

--- A tensor of one layout as one of another.
---@param where string what messages call the function
---@param x moonlet.Tensor
---@param from table the layout that it has
---@param to table the layout that it gets
---@param group table
---@param total? integer the size of the whole along the dimension that is the last one; else it
---   is sharded evenly
---@return moonlet.Tensor
function redistribute.change(where, x, from, to, group, total)
  local source, target = layouts.dim_of(where, from, x:dim()), layouts.dim_of(where, to, x:dim())
  if group.size == 1 or source == target then return x end
  local function total_along(dim) return dim == x:dim() and total or nil end
  if source == nil then
    return op.split(x, target, sizes_here(where, x, target, group, total_along(target)),
      group.number)
  end
  local parts = sizes_of_parts(x, source, group, total_along(source))
  if target == nil then return op.gather(x, source, parts, group.number) end
  return op.turn(x, source, parts, target,
    sizes_here(where, x, target, group, total_along(target)), group.number)
end

--- A tensor of that layout as a whole with which each rank computes a part.
---@param where string what messages call the function
---@param x moonlet.Tensor
---@param from table the layout that it has
---@param group table
---@param total? integer as of `change`
---@return moonlet.Tensor
function redistribute.enter(where, x, from, group, total)
  local dim = layouts.dim_of(where, from, x:dim())
  if dim == nil or group.size == 1 then return redistribute.copy(x, group) end
  local parts = sizes_of_parts(x, dim, group, dim == x:dim() and total or nil)
  return op.gather_copy(x, dim, parts, group.number)
end

--- The sum of what the ranks have computed, in that layout.
---@param where string what messages call the function
---@param x moonlet.Tensor
---@param to table the layout that it gets
---@param group table
---@param total? integer as of `change`
---@return moonlet.Tensor
function redistribute.leave(where, x, to, group, total)
  local dim = layouts.dim_of(where, to, x:dim())
  if dim == nil or group.size == 1 then return redistribute.sum(x, group) end
  local sizes = sizes_here(where, x, dim, group, dim == x:dim() and total or nil)
  return op.sum_split(x, dim, sizes, group.number)
end

return redistribute
