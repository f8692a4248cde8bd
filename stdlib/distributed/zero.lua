-- stdlib/distributed/zero.lua: ZeroRedundancyOptimizer: an optimiser whose states are sharded
-- over the ranks.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local zero = {}

-- Which rank of the group each of more parameters is of: the largest ones first, each to the rank
-- that has least; `owned` counts elements by rank. The same on all ranks.
local function share_out(parameters, owned, owner)
  local order = {}
  for i in ipairs(parameters) do order[i] = i end
  table.sort(order, function(a, b)
    local x, y = parameters[a]:numel(), parameters[b]:numel()
    if x ~= y then return x > y end
    return a < b
  end)
  for _, i in ipairs(order) do
    local least = 1
    for r = 2, #owned do
      if owned[r] < owned[least] then least = r end
    end
    owner[parameters[i]], owned[least] = least - 1, owned[least] + parameters[i]:numel()
  end
end

-- The optimiser of this rank has groups of the same options, of the parameters that are its own.
local function take_own(self)
  local own = {}
  for i, group in ipairs(self.param_groups) do
    local copy = {}
    for key, value in pairs(group) do copy[key] = value end
    copy.params, copy.param_names = {}, nil
    for _, p in ipairs(group.params) do
      if self.owner[p] == self.group.rank then table.insert(copy.params, p) end
    end
    own[i] = copy
  end
  self.optimizer.param_groups = own
end

-- What schedules and scripts have changed in the groups.
local function take_options(self)
  for i, own in ipairs(self.optimizer.param_groups) do
    for key, value in pairs(self.param_groups[i]) do
      if key ~= "params" and key ~= "param_names" then own[key] = value end
    end
  end
end

-- Runs a method of this rank's optimiser for the groups of all parameters.
local function with_all(self, method, ...)
  local inner, own = self.optimizer, self.optimizer.param_groups
  inner.param_groups = self.param_groups
  local results = table.pack(pcall(inner[method], inner, ...))
  inner.param_groups = own
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

local read_class = signature('ZeroRedundancyOptimizer(Params params, any optimizer_class, '
  .. 'dict? options=nil, Group? process_group=nil)')

--- Optimiser of which each rank has the states of its share of the parameters: with N ranks a
--- part of 1/N of the memory that they take. A step changes that share on each rank, and then all
--- ranks get all parameters. Gradients must be the same on all ranks, as with
--- `DistributedDataParallel`. Its groups are those of all parameters, so schedules and
--- `ml.train.fit` take it as any other.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.distributed.ZeroRedundancyOptimizer(net:parameters(), ml.optim.Adam, { lr = 0.1 })
--- > net(ml.ones(1, 2)):sum():backward() opt:step()
--- > #opt.optimizer.param_groups[1].params
---   2
--- > ml.distributed.destroy_process_group()
---@param params moonlet.Tensor[] the parameters, or groups of them, in the same order on all ranks
---@param optimizer_class table the class of the optimiser, such as `ml.optim.Adam`
---@param options? table its options
---@param process_group? table the group; all ranks unless given
---@shape params (*)
---@field optimizer table The optimiser of this rank's share.
---@error a class that takes all parameters as one vector, as `LBFGS`
---@source Rajbhandari et al., 2020: ZeRO, memory optimizations
local ZeroRedundancyOptimizer = class.strict(class("ZeroRedundancyOptimizer", Optimizer),
  { "consolidated" })
zero.ZeroRedundancyOptimizer = ZeroRedundancyOptimizer

function ZeroRedundancyOptimizer:init(...)
  local params, optimizer_class, given, group = read_class(...)
  local is_one = class.is_class(optimizer_class) and class.is_subclass(optimizer_class, Optimizer)
  if not is_one then
    fail("ZeroRedundancyOptimizer: 'optimizer_class' must be a class of optimisers, got %s",
      signature.describe(optimizer_class))
  elseif optimizer_class._advance ~= Optimizer._advance then
    fail("ZeroRedundancyOptimizer: %s takes all parameters as one vector, which ranks cannot share "
      .. "out", class.name(optimizer_class))
  end
  self.group = state.group_of("ZeroRedundancyOptimizer", group)
  local inner = optimizer_class(params, given or {})
  self.optimizer, self.name, self.defaults = inner, "ZeroRedundancyOptimizer", inner.defaults
  self.param_groups, self.held = inner.param_groups, inner.held
  self.params, self.owner, self.owned, self.steps = {}, {}, {}, 0
  for r = 1, self.group.size do self.owned[r] = 0 end
  for _, each in ipairs(self.param_groups) do self:_share_out(each.params) end
  for p in pairs(inner.state) do
    if self.owner[p] ~= self.group.rank then inner.state[p] = nil end
  end
  take_own(self)
end

-- More parameters, which get ranks.
function ZeroRedundancyOptimizer:_share_out(params)
  share_out(params, self.owned, self.owner)
  table.move(params, 1, #params, #self.params + 1, self.params)
end

local read_add = signature "Optimizer:add_param_group(dict param_group)"

--- Adds a group of parameters with options of their own, the same on all ranks.
--- > ml.distributed.init_process_group()
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ ml.nn.Parameter(ml.ones(1)) }, ml.optim.SGD)
--- > opt:add_param_group { params = { ml.nn.Parameter(ml.ones(2)) }, lr = 0.5 }
--- > opt.optimizer.param_groups[2].lr
---   0.5
--- > ml.distributed.destroy_process_group()
---@param param_group table the group: { params = ..., lr = ... }
function ZeroRedundancyOptimizer:add_param_group(...)
  with_all(self, "add_param_group", (read_add(...)))
  self:_share_out(self.param_groups[#self.param_groups].params)
  take_own(self)
end

-- The parameters of each rank and dtype go to all in one tensor.
local function share(self)
  local lists, order = {}, {}
  for _, p in ipairs(self.params) do
    local key = ("%d %s %s"):format(self.owner[p], p.dtype, p.device)
    if not lists[key] then
      lists[key] = { owner = self.owner[p] }
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

-- The step under the hooks: of the own share, then all get all parameters.
function ZeroRedundancyOptimizer:_advance(closure)
  local loss = nil
  if closure then
    local _ <close> = ml.enable_grad()
    loss = closure()
  end
  self.steps, self.consolidated = self.steps + 1, nil
  take_options(self)
  self.optimizer:step()
  if self.group.size > 1 then share(self) end
  return loss
end

-- --- state dicts
-- ----------------------------------------------------------------------------------

-- The states of the own parameters, numbered as those of all.
local function own_dict(self)
  take_options(self)
  return with_all(self, "state_dict")
end

local read_consolidate = signature "ZeroRedundancyOptimizer:consolidate_state_dict(int>=0? to=nil)"

--- Gathers the states of all ranks, on one of them or on all, for `state_dict`. All ranks must call
--- it; the next step makes it out of date.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > opt:consolidate_state_dict(0)
--- > opt:state_dict().param_groups[1].lr
---   0.5
--- > ml.distributed.destroy_process_group()
---@param to? integer the rank that gets them, from 0; all unless given
function ZeroRedundancyOptimizer:consolidate_state_dict(...)
  local to = read_consolidate(...)
  if to then state.position_of("consolidate_state_dict", "to", self.group, to) end
  local own, all = own_dict(self), {}
  local here = to == nil or state.world.rank == to
  if to == nil then
    objects.all_gather_object(all, own.state, { group = self.group })
  else
    objects.gather_object(own.state, here and all or nil, { dst = to, group = self.group })
  end
  if not here then return end
  for _, states in ipairs(all) do
    for number, each in pairs(states) do own.state[number] = own.state[number] or each end
  end
  self.consolidated = own
end

--- The state of the whole optimiser, as one of `optimizer_class` has it: it can be loaded with
--- another number of ranks, or by such an optimiser. With several ranks `consolidate_state_dict`
--- must have gathered it here since the last step.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > opt:state_dict().param_groups[1].lr
---   0.5
--- > ml.distributed.destroy_process_group()
---@return table
---@error states that are on other ranks
function ZeroRedundancyOptimizer:state_dict()
  if self.consolidated then return self.consolidated end
  if self.group.size > 1 and self.steps > 0 then
    fail("ZeroRedundancyOptimizer: state_dict: the states of other ranks are not on rank %d; "
      .. "consolidate_state_dict gathers them", state.world.rank)
  end
  return own_dict(self)
end

local read_load = signature("ZeroRedundancyOptimizer:load_state_dict(dict state_dict)",
  "load_state_dict")

--- Takes a state of the whole optimiser, the same on all ranks, of which each keeps its share.
--- > ml.distributed.init_process_group()
--- > w = ml.ones(1, { requires_grad = true })
--- > opt = ml.distributed.ZeroRedundancyOptimizer({ w }, ml.optim.SGD, { lr = 0.5 })
--- > opt:load_state_dict(ml.optim.SGD({ w }, { lr = 0.25 }):state_dict())
--- > opt.param_groups[1].lr
---   0.25
--- > ml.distributed.destroy_process_group()
---@param state_dict table what `state_dict` gave, here or of an optimiser of the class
---@error groups, parameters or shapes that do not fit
function ZeroRedundancyOptimizer:load_state_dict(...)
  local given, own = read_load(...), { state = {} }
  for key, value in pairs(given) do own[key] = own[key] or value end
  for i, p in ipairs(self.params) do
    if self.owner[p] == self.group.rank and type(given.state) == "table" then
      own.state[i - 1] = given.state[i - 1]
    end
  end
  with_all(self, "load_state_dict", own)
  self.steps, self.consolidated = math.max(self.steps, 1), nil
  take_own(self)
end

return options.namespace("distributed.zero", zero)
