-- stdlib/distributed/shard_group.lua: the parameters of one module that fully_shard has sharded:
-- where they are shards and where whole, and how gradients of the wholes come to the shards.
--
-- A call of the module records one node, whose results are the wholes: it is older than all that
-- uses them, so backward comes to it when it is done with them. The memory of the wholes is given
-- back between forward and backward though the tape holds them; what is gathered again is put
-- there.

local class = require "moonlet.class"
local layout = require "moonlet.distributed.layout"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local shards = require "moonlet.distributed.shards"
local fail = options.fail

local ShardGroup = class "ShardGroup"

-- Handles of whole gradients hold these until the collector finds them. It runs when they are so
-- many bytes, and several times as many as what it has to look through.
local MOST_DROPPED, DROPPED_FOR_LUA = 2 << 20, 4

local function shard_of(entry, group)
  local whole = entry.tensor
  local first, rows = shards.rows(whole:size(1), group.size, group.rank)
  local own = whole:detach():narrow(1, math.min(first, whole:size(1) + 1), rows):clone()
  local shard = parameter.new(own:contiguous(), whole.requires_grad)
  local starts = { first }
  for dim = 2, whole:dim() do starts[dim] = 1 end
  local spec = { shape = whole.shape:totable(), first = starts, group = group }
  return shard, shards.within(whole, spec)
end

--- `entries` are the parameters: `name`, `tensor` and `owners`, pairs of a module and a field.
--- `given` has the name of the module, group, policy, reshards.
function ShardGroup:init(entries, given)
  self.name, self.group, self.policy = given.name, given.group, given.policy
  self.reshards, self.syncs, self.divisor = given.reshards, true, nil
  self.items, self.open = {}, setmetatable({}, { __mode = "k" })
  for i, entry in ipairs(entries) do
    local shard, spec = shard_of(entry, given.group)
    local item = { name = entry.name, owners = entry.owners, shard = shard, spec = spec,
      shape = entry.tensor.shape:totable() }
    item.row = entry.tensor:numel() // math.max(1, item.shape[1])
    if entry.tensor:numel() == 0 then item.row = 0 end
    shards.note(shard, spec)
    self.items[i] = item
  end
  self:show(nil)
end

-- Puts the wholes, a table by item, or the shards where it is nil, into the fields of the modules.
function ShardGroup:show(wholes)
  for _, item in ipairs(self.items) do
    local tensor = wholes and wholes[item] or item.shard
    for _, owner in ipairs(item.owners) do rawset(owner[1], owner[2], tensor) end
  end
  self.shown = wholes
end

-- In which dtype an item is used.
function ShardGroup:used_dtype(item)
  local dtype = item.shard.dtype
  return self.policy.param_dtype and item.shard:is_floating_point() and self.policy.param_dtype
    or dtype
end

-- In which dtype gradients of an item are added up.
function ShardGroup:reduced_dtype(item)
  return self.policy.reduce_dtype or self:used_dtype(item)
end

-- What the values of the wholes depend on here.
function ShardGroup:state_key()
  local parts = {}
  for i, item in ipairs(self.items) do
    parts[i] = ("%d %d %s"):format(item.shard._version, item.shard:data_ptr(), item.shard.dtype)
  end
  return table.concat(parts, ", ")
end

-- --- memory -------------------------------------------------------------------------------------

--- Begins to gather the wholes, unless they are there or on their way.
function ShardGroup:prefetch()
  if self.pending or self.memory and self.memory.filled then return end
  self.pending = layout.start_gather(self.items, self.group,
    function(item) return self:used_dtype(item) end)
  self.pending.key = self:state_key()
end

-- Waits for the wholes, and puts them into `memory`, or a new one.
function ShardGroup:fill(memory)
  self:prefetch()
  local pending = self.pending
  self.pending = nil
  local wholes = layout.finish_gather(pending)
  if memory and memory.key == pending.key then
    for item, whole in pairs(wholes) do ml._take_memory(memory.wholes[item], whole) end
  else
    memory = { wholes = wholes, key = pending.key }
  end
  memory.filled = true
  self.memory = memory
end

-- Gives the memory of the wholes back; the tape may hold them.
function ShardGroup:empty()
  if self.pending then
    local pending = self.pending
    self.pending = nil
    layout.drop_gather(pending)
  end
  local memory = self.memory
  if memory and memory.filled then
    for _, whole in pairs(memory.wholes) do ml._give_back_memory(whole) end
    memory.filled = false
  end
end

--- Shards take the fields of the modules, and the wholes are given back.
function ShardGroup:reshard()
  self:show(nil)
  self:empty()
  self.held = nil
end

-- The wholes as parameters that have no part on the tape, or leaves of their own.
function ShardGroup:plain_wholes(as_leaves)
  local out = {}
  for item, whole in pairs(self.memory.wholes) do
    local alias = whole:detach()
    if as_leaves and item.shard.requires_grad then alias:requires_grad_(true) end
    out[item] = parameter.like(item.shard, alias)
  end
  return out
end

--- The wholes take the fields of the modules, without a part on the tape.
function ShardGroup:unshard()
  if not (self.memory and self.memory.filled) then self:fill(self.memory) end
  if not self.shown then self:show(self:plain_wholes(true)) end
end

-- --- forward ------------------------------------------------------------------------------------

-- One call of the module, as backward knows it.
local Call = {}
Call.__index = Call

-- The wholes as results of a node. The second argument is a tensor that requires a gradient, which
-- it never gets: so there is a node.
local Gather = ml.autograd.Function {
  name = "ShardedParameters",
  forward = function(ctx, call, _)
    ctx:set_materialize_grads(false)
    ctx.call = call
    local out = {}
    for i, item in ipairs(call.trained) do out[i] = call.memory.wholes[item]:detach() end
    return table.unpack(out)
  end,
  backward = function(ctx, ...)
    if ml.is_grad_enabled() then
      fail("backward: parameters that fully_shard has sharded have no gradients of gradients")
    end
    ctx.call:finish({ ... })
    return nil, nil
  end,
}

function ShardGroup:trained_items()
  local out = {}
  for _, item in ipairs(self.items) do
    if item.shard.requires_grad then out[#out + 1] = item end
  end
  return out
end

--- The call whose part of the graph is computed once more, if backward does that: the last one of
--- the pass that backward goes through, or else of the last pass.
---@param pass? table
---@return table?
function ShardGroup:call_again(pass)
  local best, rank = nil, nil
  for call in pairs(self.open) do
    if not call.done then
      local of = { call.pass == pass and 1 or 0, call.pass.number, call.in_backward and 0 or 1,
        call.number }
      for i = 1, best and #of or 0 do
        if of[i] ~= rank[i] then
          if of[i] < rank[i] then of = nil end
          break
        end
      end
      if of then best, rank = call, of end
    end
  end
  return best
end

local function new_call(self, pass, trained)
  local call = setmetatable({ owner = self, memory = self.memory, trained = trained, pass = pass,
    number = #pass.calls + 1 }, Call)
  pass.calls[call.number] = call
  self.open[call] = true
  return call
end

-- Of wholes without gradients no node is recorded: backward is done with them when it has the
-- gradients of what went in. Puts watched tensors among the inputs.
local function watch(call, inputs)
  local missing = 0
  for i = 1, inputs.n do
    local x = inputs[i]
    if ml.is_tensor(x) and x.requires_grad then
      missing = missing + 1
      inputs[i] = x:view_as(x)
      inputs[i]:register_hook(function()
        missing = missing - 1
        if missing == 0 then call:finish {} end
      end)
    end
  end
end

-- Has the node of a call give the wholes that gradients come to.
function ShardGroup:record(call, wholes)
  local results = table.pack(Gather(call, ml.empty(0, { requires_grad = true })))
  for i, item in ipairs(call.trained) do
    wholes[item] = parameter.like(item.shard, results[i])
  end
end

--- Before the module runs: its fields hold the wholes. Gives the call, or nil where backward will
--- not come here.
---@param pass table
---@param inputs table packed
---@return table? call
function ShardGroup:before_forward(pass, inputs)
  if not (self.memory and self.memory.filled) then self:fill(self.memory) end
  if self.held and self.memory.key ~= self:state_key() then
    fail("fully_shard: the parameters of '%s' have changed since unshard(); call reshard() before",
      self.name)
  end
  local wholes = self:plain_wholes(false)
  self.held = nil
  local call
  if ml.is_grad_enabled() then
    local trained = self:trained_items()
    call = new_call(self, pass, trained)
    if #trained == 0 then watch(call, inputs) end
    if #trained > 0 then self:record(call, wholes) end
  end
  self:show(wholes)
  return call
end

--- After it: the shards are back, unless the wholes are to stay for backward.
function ShardGroup:after_forward()
  if self.reshards or not ml.is_grad_enabled() then self:reshard() end
end

-- --- backward -----------------------------------------------------------------------------------

--- Backward comes to what a call has recorded: its wholes are there until it is done with them.
function Call:begin()
  local owner = self.owner
  if self.in_backward then return end
  if self.memory.key ~= owner:state_key() then
    fail("backward: the parameters of '%s' have changed since its forward", owner.name)
  end
  self.in_backward, self.done = true, false
  self.pass:begin_backward()
  if not self.memory.filled then
    if owner.memory and owner.memory.filled then owner:empty() end
    owner:fill(self.memory)
  end
  owner.memory = self.memory
  owner:show(owner:plain_wholes(true))
  -- What ran before it comes next.
  for number = self.number - 1, 1, -1 do
    local before = self.pass.calls[number]
    if before and not before.done and not before.in_backward then
      if before.owner ~= owner then before.owner:prefetch() end
      return
    end
  end
end

-- Backward is done with the wholes of a call.
function Call:leave()
  self.in_backward, self.done = false, true
  for call in pairs(self.owner.open) do
    if call.in_backward then return end
  end
  self.owner:reshard()
end

-- The same with the gradients by position, nil where there is none.
function Call:finish(gradients)
  local owner = self.owner
  self.pass:begin_backward()
  self:leave()
  local found, dropped = {}, 0
  for i, item in ipairs(self.trained) do
    local g, before = gradients[i], owner.unsent and owner.unsent[item]
    if g and before then g = before + g end
    found[item] = g or before
    if g then dropped = dropped + g:numel() * g:element_size() end
  end
  local pass = self.pass
  if owner.syncs then
    owner.unsent = nil
    pass:reduce(owner, found)
  else
    owner.unsent = found
  end
  pass.dropped = pass.dropped + dropped
  if pass.dropped > math.max(MOST_DROPPED, DROPPED_FOR_LUA * collectgarbage "count" * 1024) then
    pass.dropped = 0
    collectgarbage()
  end
end

--- Begins to add up gradients, by item, over the ranks.
function ShardGroup:start_reduce(gradients)
  local items = {}
  for _, item in ipairs(self.items) do
    if gradients[item] then items[#items + 1] = item end
  end
  if #items == 0 then return nil end
  local pending = layout.start_reduce(items, gradients, self.group,
    function(item) return self:reduced_dtype(item) end)
  pending.divisor = self.divisor or self.group.size
  return pending
end

--- Waits for such sums; they come to the shards as gradients do, hooks see them.
---@param pending table
function ShardGroup.finish_reduce(pending)
  layout.finish_reduce(pending, function(item, part)
    local _ <close> = ml.no_grad()
    local cast = part:to { dtype = item.shard.dtype }
    local g = cast / pending.divisor
    cast:free()
    item.shard:backward(g)
    g:free()
  end)
end

return ShardGroup
