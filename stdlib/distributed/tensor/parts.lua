-- stdlib/distributed/tensor/parts.lua: parameters of modules of which each rank has a part: how
-- they are sharded, and made whole again.

local collectives = require "moonlet.distributed.collectives"
local layouts = require "moonlet.distributed.tensor.layouts"
local ml = require "moonlet"
local options = require "moonlet.options"
local norms = require "moonlet.distributed.norms"
local parameter = require "moonlet.nn.parameter"
local shards = require "moonlet.distributed.shards"
local fail = options.fail

local parts = {}

-- How a parameter is sharded: `dim`; `sizes`, what each rank has of each of the `pieces` that stand
-- behind one another along it; `group`. Copies of a module share it.
local Placement = {}

--- How the parameter in a field of a module is sharded, or nil.
---@param module table
---@param field string
---@return table?
function parts.placement(module, field)
  local all = rawget(module, "_sharded")
  return all and all[field]
end

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

--- Makes all ranks of a group have the values of one; without `source` they stay as they are.
---@param tensors moonlet.Tensor[]
---@param group table
---@param source integer|false
function parts.share(tensors, group, source)
  if not source then return end
  for _, x in ipairs(tensors) do
    if x:numel() > 0 then collectives.broadcast(x:detach(), source, { group = group }) end
  end
end

-- What a parameter that is sharded so is, for state dicts and checkpoints.
local function spec_of(x, placement)
  local shape, first = x.shape:totable(), {}
  for dim = 1, #shape do first[dim] = 1 end
  shape[placement.dim] = piece_size(placement) * placement.pieces
  first[placement.dim] = layouts.range(placement.sizes, placement.group.rank) + 1
  local spec = { shape = shape, first = first, group = placement.group }
  if placement.pieces > 1 then
    spec.pieces = placement.pieces
    spec.gather = function(part) return parts.whole(part, placement) end
    spec.take = function(whole) return part_of(whole, placement, placement.group.rank) end
  end
  return spec
end

-- Has state dicts say which parts they have.
local function note_in_state_dicts(module)
  module:register_state_dict_post_hook(function(own, destination, prefix)
    for field, placement in pairs(rawget(own, "_sharded")) do
      local tensor = destination[prefix .. field]
      if ml.is_tensor(tensor) and placement.group.size > 1 then
        shards.note(tensor, shards.of(own[field]) or spec_of(own[field], placement))
      end
    end
  end)
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
  local all = rawget(module, "_sharded")
  if not all then
    all = setmetatable({}, Placement)
    rawset(module, "_sharded", all)
    note_in_state_dicts(module)
  end
  local known = context.sharded[whole]
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
    context.sharded[whole] = known
    if placement.group.size > 1 then
      shards.note(known.tensor, spec_of(known.tensor, placement))
      norms.add(known.tensor, placement.group)
    end
  end
  module[field], all[field] = known.tensor, placement
end

--- The whole of a tensor that is sharded so, on all ranks of the group.
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

return parts
