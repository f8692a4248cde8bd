-- stdlib/distributed/zero.lua: ml.distributed.ZeroRedundancyOptimizer: an optimiser whose states
-- are shared out over the ranks.

local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local zero = {}

-- Which rank of the group each parameter is of: the largest ones first, each to the rank that has
-- least. The same on all ranks.
local function shared_out(parameters, size)
  local order, owned, owner = {}, {}, {}
  for i in ipairs(parameters) do order[i] = i end
  table.sort(order, function(a, b)
    local x, y = parameters[a]:numel(), parameters[b]:numel()
    if x ~= y then return x > y end
    return a < b
  end)
  for r = 1, size do owned[r] = 0 end
  for _, i in ipairs(order) do
    local least = 1
    for r = 2, size do
      if owned[r] < owned[least] then least = r end
    end
    owner[i], owned[least] = least - 1, owned[least] + parameters[i]:numel()
  end
  return owner
end

local read_class = signature('ZeroRedundancyOptimizer(Tensor[] params, any optimizer_class, '
  .. 'dict? options=nil, Group? process_group=nil)')

--- Optimiser of which each rank has the states of its share of the parameters: with N ranks a
--- part of 1/N of the memory that they take. A step changes that share on each rank, and then all
--- ranks get all parameters. Gradients must be the same on all ranks, as with
--- `DistributedDataParallel`.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.distributed.ZeroRedundancyOptimizer(net:parameters(), ml.optim.Adam, { lr = 0.1 })
--- > net(ml.ones(1, 2)):sum():backward() opt:step()
--- > #opt.optimizer.param_groups[1].params
---   2
--- > ml.distributed.destroy_process_group()
---@param params moonlet.Tensor[] the parameters, in the same order on all ranks
---@param optimizer_class table the class of the optimiser, such as `ml.optim.Adam`
---@param options? table its options
---@param process_group? table the group; all ranks unless given
---@shape params (*)
---@field optimizer table The optimiser of this rank's share; nil where that is empty.
---@source Rajbhandari et al., 2020: ZeRO, memory optimizations
local ZeroRedundancyOptimizer = class "ZeroRedundancyOptimizer"
zero.ZeroRedundancyOptimizer = ZeroRedundancyOptimizer

function ZeroRedundancyOptimizer:init(...)
  local params, optimizer_class, given, group = read_class(...)
  if type(optimizer_class) ~= "table" then
    fail("ZeroRedundancyOptimizer: 'optimizer_class' must be a class of optimisers, got %s",
      type(optimizer_class))
  elseif #params == 0 then
    fail "ZeroRedundancyOptimizer: 'params' has no parameter"
  end
  self.group = state.group_of("ZeroRedundancyOptimizer", group)
  self.params, self.owner = params, shared_out(params, self.group.size)
  local own = {}
  for i, p in ipairs(params) do
    if self.owner[i] == self.group.rank then own[#own + 1] = p end
  end
  self.optimizer = #own > 0 and optimizer_class(own, given or {}) or nil
end

-- The parameters of each rank and dtype go to all in one tensor.
local function share(self)
  local lists, order = {}, {}
  for i, p in ipairs(self.params) do
    local key = ("%d %s %s"):format(self.owner[i], p.dtype, p.device)
    if not lists[key] then
      lists[key] = { owner = self.owner[i] }
      order[#order + 1] = key
    end
    table.insert(lists[key], p)
  end
  local pending = {}
  local _ <close> = ml.no_grad()
  for _, key in ipairs(order) do
    local flats = {}
    for i, p in ipairs(lists[key]) do flats[i] = p:detach():reshape(-1) end
    local flat = ml.cat(flats)
    pending[#pending + 1] = { flat, lists[key], collectives.broadcast(flat,
      self.group.ranks[lists[key].owner + 1], { group = self.group, async_op = true }) }
  end
  for _, each in ipairs(pending) do
    local flat, list, handle = each[1], each[2], each[3]
    handle:wait()
    local at = 1
    for _, p in ipairs(list) do
      if list.owner ~= self.group.rank then
        p:detach():copy_(flat:narrow(1, at, p:numel()):view(p.shape))
      end
      at = at + p:numel()
    end
  end
end

--- Changes all parameters by their gradients; returns what `closure` returns.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > w:sum():backward() opt:step()
--- > w
---   {0.5000}
---   Tensor (1,) float32 requires_grad
--- > ml.distributed.destroy_process_group()
---@param closure? fun(): any computes the loss and the gradients
---@return any
function ZeroRedundancyOptimizer:step(closure)
  local loss = nil
  if closure then
    local _ <close> = ml.enable_grad()
    loss = closure()
  end
  if self.optimizer then self.optimizer:step() end
  if self.group.size > 1 then share(self) end
  return loss
end

--- Drops the gradients of all parameters.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > w:sum():backward()
--- > ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD):zero_grad()
--- > w.grad
---   nil
--- > ml.distributed.destroy_process_group()
function ZeroRedundancyOptimizer:zero_grad()
  for _, p in ipairs(self.params) do p.grad = nil end
end

-- The state dict of each rank's share, as rank `to` has them; nil on others.
local function gathered(self, to)
  local root = state.position_of("ZeroRedundancyOptimizer", "to", self.group, to)
  local here = self.group.rank == root
  local all = here and {} or nil
  local own = self.optimizer and self.optimizer:state_dict() or false
  objects.gather_object(own, all, { dst = to, group = self.group })
  return all
end

--- The states of all ranks on one of them, for a checkpoint: a table by ranks, nil on the others.
--- All ranks must call it.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > #opt:consolidated_state_dict().shares
---   1
--- > ml.distributed.destroy_process_group()
---@param to? integer the rank that gets them, 0 unless given
---@return table? state
function ZeroRedundancyOptimizer:consolidated_state_dict(to)
  local shares = gathered(self, to or 0)
  return shares and { shares = shares } or nil
end

--- Takes such states back, with the same number of ranks; all ranks give what one has saved.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > opt:load_state_dict(opt:consolidated_state_dict())
--- > ml.distributed.destroy_process_group()
---@param given table what `consolidated_state_dict` returned
---@error states of another number of ranks
function ZeroRedundancyOptimizer:load_state_dict(given)
  if type(given) ~= "table" or type(given.shares) ~= "table"
      or #given.shares ~= self.group.size then
    fail("ZeroRedundancyOptimizer: states of %d ranks are expected, got those of %s",
      self.group.size, type(given) == "table" and type(given.shares) == "table"
      and tostring(#given.shares) or "none")
  end
  local own = given.shares[self.group.rank + 1]
  if self.optimizer and own then self.optimizer:load_state_dict(own) end
end

return options.namespace("distributed.zero", zero)
