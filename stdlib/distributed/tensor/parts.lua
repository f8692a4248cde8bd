-- stdlib/distributed/tensor/parts.lua: parameters of modules of which each rank has a part: how
-- they are parted, and made whole again.

local collectives = require "moonlet.distributed.collectives"
local layouts = require "moonlet.distributed.tensor.layouts"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local fail = options.fail

local parts = {}

-- How a parameter is parted: `dim`; `sizes`, what each rank has of each of the `pieces` that stand
-- behind one another along it; `group`. Copies of a module share it.
local Placement = {}

--- How the parameter in a field of a module is parted, or nil.
---@param module table
---@param field string
---@return table?
function parts.placement(module, field)
  local all = rawget(module, "_parted")
  return all and all[field]
end

--- Whether any parameter directly in the module is parted.
---@param module table
---@return boolean
function parts.any(module) return rawget(module, "_parted") ~= nil end

local function piece_size(placement)
  local sum = 0
  for _, size in ipairs(placement.sizes) do sum = sum + size end
  return sum
end

-- The part of a whole that a rank, from 0, has.
local function part_of(whole, placement, rank)
  local before, size = layouts.range(placement.sizes, rank)
  local length, list = piece_size(placement), {}
  for k = 0, placement.pieces - 1 do
    list[k + 1] = whole:narrow(placement.dim, k * length + before + 1, size)
  end
  return #list == 1 and list[1] or ml.cat(list, placement.dim)
end

-- The same values on all ranks of the group: those of one of them.
local function agree(x, group, source)
  if source then collectives.broadcast(x, source, { group = group }) end
end

--- Makes all ranks of a group have the values of one; without `source` they stay as they are.
---@param tensors moonlet.Tensor[]
---@param group table
---@param source integer|false
function parts.share(tensors, group, source)
  local _ <close> = ml.no_grad()
  for _, x in ipairs(tensors) do
    if source and x:numel() > 0 then
      local there = x:detach()
      agree(there, group, source)
    end
  end
end

--- Leaves each rank of a group its part of a parameter of a module. What is shared by several
--- modules stays so.
---@param module table
---@param field string
---@param placement table { dim, sizes, pieces, group }
---@param context table of a call of parallelize_module
function parts.part(module, field, placement, context)
  local whole = module[field]
  setmetatable(placement, Placement)
  local all = rawget(module, "_parted")
  if not all then
    all = setmetatable({}, Placement)
    rawset(module, "_parted", all)
  end
  local known = context.parted[whole]
  if known and (known.placement.dim ~= placement.dim
      or table.concat(known.placement.sizes, " ") ~= table.concat(placement.sizes, " ")
      or known.placement.pieces ~= placement.pieces) then
    fail("parallelize_module: '%s' and '%s' share a parameter, of which each wants other parts",
      known.name, context.name .. "." .. field)
  end
  if not known then
    local own
    do
      local _ <close> = ml.no_grad()
      parts.share({ whole }, placement.group, context.source)
      own = part_of(whole:detach(), placement, placement.group.rank):clone()
    end
    known = { placement = placement, name = context.name .. "." .. field,
      tensor = parameter.new(own, whole.requires_grad) }
    context.parted[whole] = known
  end
  module[field], all[field] = known.tensor, placement
end

--- The whole of a tensor that is parted so, on all ranks of the group.
---@param x moonlet.Tensor
---@param placement table
---@return moonlet.Tensor
function parts.whole(x, placement)
  local _ <close> = ml.no_grad()
  local group, list, dim = placement.group, {}, placement.dim
  if group.size == 1 then return x:detach():clone() end
  for r, size in ipairs(placement.sizes) do
    local shape = x.shape:totable()
    shape[dim] = size * placement.pieces
    list[r] = ml.empty(shape, { dtype = x.dtype, device = x.device })
  end
  collectives.all_gather(list, x:detach():contiguous(), { group = group })
  local pieces = {}
  for k = 0, placement.pieces - 1 do
    for r, size in ipairs(placement.sizes) do
      pieces[#pieces + 1] = list[r]:narrow(dim, k * size + 1, size)
    end
  end
  return ml.cat(pieces, dim)
end

--- This rank's part of such a whole.
---@param whole moonlet.Tensor
---@param placement table
---@return moonlet.Tensor
function parts.own(whole, placement) return part_of(whole, placement, placement.group.rank) end

--- The shape of the whole.
---@param x moonlet.Tensor
---@param placement table
---@return integer[]
function parts.whole_shape(x, placement)
  local shape = x.shape:totable()
  shape[placement.dim] = piece_size(placement) * placement.pieces
  return shape
end

return parts
