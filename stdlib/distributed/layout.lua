-- stdlib/distributed/layout.lua: how the shards of several parameters lie in what ranks send: the
-- part of a rank is all its shards, one behind the other, with room for the largest of each.

local ml = require "moonlet"
local collectives = require "moonlet.distributed.collectives"
local shards = require "moonlet.distributed.shards"

local layout = {}

-- Items in lists of one dtype and device, each with its offset in the part of a rank.
local function lots_of(items, dtype_of, size)
  local lots, by_kind = {}, {}
  for _, item in ipairs(items) do
    local dtype, device = dtype_of(item), item.shard.device
    local kind = ("%s %s"):format(dtype, device)
    local lot = by_kind[kind]
    if not lot then
      lot = { dtype = dtype, device = device, bytes = 0, count = 0, items = {}, offsets = {} }
      lots[#lots + 1], by_kind[kind] = lot, lot
    end
    table.insert(lot.items, item)
    table.insert(lot.offsets, lot.count)
    lot.count = lot.count + (item.shape[1] + size - 1) // size * item.row
  end
  return lots
end

-- Pairs of what stands for the same elements in what is sent and in a whole: views of both.
local function same_parts(flat, whole, item, offset, size)
  local rows, most = item.shape[1], (item.shape[1] + size - 1) // size
  if item.row * rows == 0 then return {} end
  if rows % size == 0 then
    return { { flat:narrow(2, offset + 1, most * item.row), whole:view(size, most * item.row) } }
  end
  local out = {}
  for position = 0, size - 1 do
    local first, count = shards.rows(rows, size, position)
    if count > 0 then
      out[#out + 1] = { flat[position + 1]:narrow(1, offset + 1, count * item.row),
        whole:narrow(1, first, count):view(-1) }
    end
  end
  return out
end

-- What ranks have sent or got has been used.
local function drop(x) ml._give_back_memory(x) end

--- Begins to gather the wholes of items, `{ shard, shape, row }`, over a group.
---@param items table[]
---@param group table
---@param dtype_of fun(item: table): string in which dtype each is sent
---@return table pending
function layout.start_gather(items, group, dtype_of)
  local _ <close> = ml.no_grad()
  local lots = lots_of(items, dtype_of, group.size)
  for _, lot in ipairs(lots) do
    local like = { dtype = lot.dtype, device = lot.device }
    lot.own = ml.zeros({ lot.count }, like)
    for i, item in ipairs(lot.items) do
      local shard = item.shard:detach()
      lot.own:narrow(1, lot.offsets[i] + 1, shard:numel()):copy_(shard:view(-1))
    end
    lot.flat = ml.empty({ group.size, lot.count }, like)
    lot.work = collectives.all_gather_into_tensor(lot.flat, lot.own,
      { group = group, async_op = true })
  end
  return { lots = lots, size = group.size }
end

--- The wholes of the items that a call of `start_gather` began with, by item.
---@param pending table
---@return table<table, moonlet.Tensor>
function layout.finish_gather(pending)
  local _ <close> = ml.no_grad()
  local wholes = {}
  for _, lot in ipairs(pending.lots) do
    lot.work:wait()
    drop(lot.own)
    for i, item in ipairs(lot.items) do
      local whole = ml.empty(item.shape, { dtype = lot.dtype, device = lot.device })
      for _, pair in ipairs(same_parts(lot.flat, whole, item, lot.offsets[i], pending.size)) do
        pair[2]:copy_(pair[1])
      end
      wholes[item] = whole
    end
    drop(lot.flat)
  end
  return wholes
end

--- Waits for a gather whose results nobody wants.
---@param pending table
function layout.drop_gather(pending)
  for _, lot in ipairs(pending.lots) do
    lot.work:wait()
    drop(lot.own)
    drop(lot.flat)
  end
end

--- Begins to add up gradients, by item, over a group, of which each rank gets its part.
---@param items table[] those with a gradient
---@param gradients table<table, moonlet.Tensor>
---@param group table
---@param dtype_of fun(item: table): string in which dtype each is added up
---@return table pending
function layout.start_reduce(items, gradients, group, dtype_of)
  local _ <close> = ml.no_grad()
  local lots, size = lots_of(items, dtype_of, group.size), group.size
  for _, lot in ipairs(lots) do
    local like = { dtype = lot.dtype, device = lot.device }
    lot.flat = ml.zeros({ size, lot.count }, like)
    for i, item in ipairs(lot.items) do
      local g = gradients[item]:contiguous()
      for _, pair in ipairs(same_parts(lot.flat, g, item, lot.offsets[i], size)) do
        pair[1]:copy_(pair[2])
      end
    end
    lot.own = ml.empty({ lot.count }, like)
    lot.work = collectives.reduce_scatter_tensor(lot.own, lot.flat,
      { group = group, async_op = true })
  end
  return { lots = lots, group = group }
end

--- Calls `take(item, gradient)` with this rank's part of each sum.
---@param pending table
---@param take fun(item: table, gradient: moonlet.Tensor)
function layout.finish_reduce(pending, take)
  for _, lot in ipairs(pending.lots) do
    lot.work:wait()
    drop(lot.flat)
    for i, item in ipairs(lot.items) do
      local part = lot.own:narrow(1, lot.offsets[i] + 1, item.shard:numel())
      take(item, part:view(item.shard.shape))
    end
    drop(lot.own)
  end
end

return layout
