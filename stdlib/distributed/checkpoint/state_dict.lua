-- stdlib/distributed/checkpoint/state_dict.lua: the states of a model and its optimiser under the
-- names of the parameters, in parts or whole.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local shards = require "moonlet.distributed.shards"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local state_dict = {}

local function sorted_keys(value)
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

-- A tensor as the options want it: itself, or the whole that it is a part of.
local function given_tensor(tensor, full, on_host)
  if full then
    tensor = shards.whole(tensor)
    -- Only one rank has what takes so much memory.
    if on_host and state.world and state.world.rank > 0 then return nil end
  end
  if not on_host then return tensor end
  local spec, there = shards.of(tensor), tensor:cpu()
  return spec and shards.note(there, spec) or there
end

-- The same of all in nested tables, in an order that all ranks have.
local function given(value, full, on_host)
  if ml.is_tensor(value) then return given_tensor(value, full, on_host) end
  if type(value) ~= "table" then return value end
  local out = {}
  for _, key in ipairs(sorted_keys(value)) do out[key] = given(value[key], full, on_host) end
  return out
end

-- What goes into the part of `spec`, of a whole tensor or such a part.
local function part_for(value, spec)
  if not spec or not ml.is_tensor(value) or shards.of(value) then return value end
  local sizes = value.shape:totable()
  for dim, size in ipairs(spec.shape) do
    if #sizes ~= #spec.shape or sizes[dim] ~= size then return value end
  end
  return shards.part(value, spec, spec.sizes)
end

-- What rank 0 has, on all ranks.
local function from_rank_0(value)
  if not state.world or state.world.size == 1 then return value end
  local plan, tensors = { nil }, {}
  local function outline(item)
    if ml.is_tensor(item) then
      tensors[#tensors + 1] = item
      return { tensor = #tensors, shape = item.shape:totable(), dtype = item.dtype }
    elseif type(item) ~= "table" then
      return { value = item }
    end
    local out = {}
    for _, key in ipairs(sorted_keys(item)) do out[key] = outline(item[key]) end
    return { items = out }
  end
  if state.world.rank == 0 then plan[1] = outline(value) end
  objects.broadcast_object_list(plan)
  local function rebuilt(node)
    if node.tensor then
      local x = state.world.rank == 0 and tensors[node.tensor]:detach():contiguous()
        or ml.empty(node.shape, { dtype = node.dtype })
      collectives.broadcast(x, 0)
      return x
    elseif not node.items then
      return node.value
    end
    local out = {}
    for _, key in ipairs(sorted_keys(node.items)) do out[key] = rebuilt(node.items[key]) end
    return out
  end
  return rebuilt(plan[1])
end

-- --- models -------------------------------------------------------------------------------------

local OPTIONS = 'bool full_state_dict=false, bool cpu_offload=false)'
local read_get_model = signature("get_model_state_dict(Module model, " .. OPTIONS)

--- The state dict of a model. Of parameters that `fully_shard` has sharded it has the parts of
--- this rank, or with `full_state_dict` the whole ones, for which all ranks must call it.
--- > state = ml.distributed.checkpoint.get_model_state_dict(ml.nn.Linear(2, 1))
--- > state.weight.shape
---   (1, 2)
---@param model table the model
---@param full_state_dict? boolean whether tensors are whole
---@param cpu_offload? boolean whether they are on the host; whole ones are on rank 0 alone then
---@return table<string, moonlet.Tensor>
---@shape parameters (n, *) -> (n, *), or parts (m, *) of them
function state_dict.get_model_state_dict(...)
  local model, full, on_host = read_get_model(...)
  return given(model:state_dict(), full, on_host)
end

-- What part a parameter is, with its sizes.
local function with_sizes(spec, p)
  local out = { sizes = p.shape:totable() }
  for key, value in pairs(spec) do out[key] = value end
  return out
end

-- By name of a parameter its part.
local function specs_of(model)
  local specs = {}
  for name, p in model:named_parameters { remove_duplicate = false } do
    local spec = shards.of(p)
    specs[name] = spec and with_sizes(spec, p)
  end
  return specs
end

local read_set_model = signature("set_model_state_dict(Module model, dict model_state_dict, "
  .. "bool full_state_dict=false, bool broadcast_from_rank0=false, bool strict=true)")

--- Loads a state dict into a model, of which each rank takes its parts: of whole tensors where it
--- is a full one.
--- > net = ml.nn.Linear(2, 1)
--- > state = ml.nn.Linear(2, 1):state_dict()
--- > ml.distributed.checkpoint.set_model_state_dict(net, state, { full_state_dict = true })
---   <All keys matched successfully>
---@param model table the model
---@param model_state_dict table the state
---@param full_state_dict? boolean whether its tensors are whole
---@param broadcast_from_rank0? boolean whether rank 0 alone gives it
---@param strict? boolean whether missing and unexpected names are an error
---@return table keys as of `load_state_dict`
function state_dict.set_model_state_dict(...)
  local model, value, full, broadcasts, strict = read_set_model(...)
  if broadcasts then
    if not full then fail "set_model_state_dict: 'broadcast_from_rank0' is for full states" end
    value = from_rank_0(value)
  end
  local specs, out = full and specs_of(model) or {}, {}
  for name, tensor in pairs(value) do out[name] = part_for(tensor, specs[name]) end
  return model:load_state_dict(out, { strict = strict })
end

-- --- optimisers ---------------------------------------------------------------------------------

local function names_of(op, model, optim)
  local names = {}
  for name, p in model:named_parameters() do names[p] = name end
  for i, group in ipairs(optim.param_groups) do
    for j, p in ipairs(group.params) do
      if not names[p] then
        fail("%s: parameter %d of group %d of the optimiser is none of the model's", op, j, i)
      end
    end
  end
  return names
end

-- Has an optimiser make its states: a step that changes nothing.
local function make_states(optim)
  if next(optim.state) ~= nil then return end
  local rates, made = {}, {}
  for i, group in ipairs(optim.param_groups) do
    for _, p in ipairs(group.params) do
      if p.grad ~= nil then return end
      if p.requires_grad then made[#made + 1] = p end
    end
    rates[i] = group.lr
  end
  for _, p in ipairs(made) do p.grad = ml.zeros_like(p:detach()) end
  for i, group in ipairs(optim.param_groups) do
    group.lr = ml.is_tensor(rates[i]) and ml.zeros_like(rates[i]) or 0.0
  end
  local _ <close> = setmetatable({}, { __close = function()
    for i, group in ipairs(optim.param_groups) do group.lr = rates[i] end
    for _, p in ipairs(made) do p.grad = nil end
  end })
  optim:step()
end

local read_get_optim = signature("get_optimizer_state_dict(Module model, Optimizer optimizers, "
  .. OPTIONS)

-- The state of a parameter; tensors of its shape are parts as it is.
local function noted_state(p, found)
  local spec, out = shards.of(p), {}
  for key, value in pairs(found) do
    if ml.is_tensor(value) then
      value = value:detach()
      if spec and value:is_same_size(p) then shards.note(value, spec) end
    end
    out[key] = value
  end
  return out
end

--- The state of an optimiser under the names of a model's parameters: `state` by name, and
--- `param_groups`, whose `params` are names. States that the optimiser has not made yet are made.
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.optim.Adam(net:parameters(), { lr = 0.1 })
--- > ml.distributed.checkpoint.get_optimizer_state_dict(net, opt).state.weight.exp_avg.shape
---   (1, 2)
---@param model table the model
---@param optimizers table the optimiser of its parameters
---@param full_state_dict? boolean whether tensors are whole; all ranks must call it then
---@param cpu_offload? boolean whether they are on the host; whole ones are on rank 0 alone then
---@return table state
function state_dict.get_optimizer_state_dict(...)
  local model, optim, full, on_host = read_get_optim(...)
  local names = names_of("get_optimizer_state_dict", model, optim)
  make_states(optim)
  local found, out = optim:state_dict(), { state = {}, param_groups = {} }
  for i, group in ipairs(found.param_groups) do
    local params, copy = {}, {}
    for key, value in pairs(group) do copy[key] = value end
    for j, p in ipairs(optim.param_groups[i].params) do
      params[j] = names[p]
      local of = found.state[group.params[j]]
      if of then out.state[names[p]] = noted_state(p, of) end
    end
    copy.params = params
    out.param_groups[i] = copy
  end
  return given(out, full, on_host)
end

local read_set_optim = signature("set_optimizer_state_dict(Module model, Optimizer optimizers, "
  .. "dict optim_state_dict, bool full_state_dict=false, bool broadcast_from_rank0=false)")

-- The state of a parameter for the optimiser, of whole tensors or parts.
local function own_state(p, value)
  local spec, out = shards.of(p), {}
  spec = spec and with_sizes(spec, p)
  for key, item in pairs(value) do out[key] = part_for(item, spec) end
  return out
end

--- Loads such a state into an optimiser.
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.optim.Adam(net:parameters(), { lr = 0.1 })
--- > state = ml.distributed.checkpoint.get_optimizer_state_dict(net, opt)
--- > ml.distributed.checkpoint.set_optimizer_state_dict(net, opt, state)
--- > opt.state[net.weight].step
---   1
---@param model table the model
---@param optimizers table the optimiser of its parameters
---@param optim_state_dict table the state
---@param full_state_dict? boolean whether its tensors are whole
---@param broadcast_from_rank0? boolean whether rank 0 alone gives it
---@error names or groups that do not fit
function state_dict.set_optimizer_state_dict(...)
  local model, optim, value, full, broadcasts = read_set_optim(...)
  if broadcasts then
    if not full then fail "set_optimizer_state_dict: 'broadcast_from_rank0' is for full states" end
    value = from_rank_0(value)
  end
  if type(value.state) ~= "table" or type(value.param_groups) ~= "table" then
    fail "set_optimizer_state_dict: this is no state of get_optimizer_state_dict"
  end
  local names = names_of("set_optimizer_state_dict", model, optim)
  local out, count = { state = {}, param_groups = {} }, 0
  for i, group in ipairs(optim.param_groups) do
    local from, copy = value.param_groups[i], { params = {} }
    if type(from) ~= "table" then
      fail("set_optimizer_state_dict: the state has no group %d", i)
    end
    for key, item in pairs(from) do
      if key ~= "params" then copy[key] = item end
    end
    for j, p in ipairs(group.params) do
      copy.params[j] = count
      local of = value.state[names[p]]
      if of then out.state[count] = own_state(p, of) end
      count = count + 1
    end
    out.param_groups[i] = copy
  end
  optim:load_state_dict(out)
end

-- --- both ---------------------------------------------------------------------------------------

local read_get = signature("get_state_dict(Module model, Optimizer optimizers, " .. OPTIONS)

--- The states of a model and its optimiser, for `save` and `load`.
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.optim.Adam(net:parameters(), { lr = 0.1 })
--- > model, optim = ml.distributed.checkpoint.get_state_dict(net, opt)
--- > optim.state.weight.step
---   1
---@param model table the model
---@param optimizers table the optimiser of its parameters
---@param full_state_dict? boolean whether tensors are whole; all ranks must call it then
---@param cpu_offload? boolean whether they are on the host; whole ones are on rank 0 alone then
---@return table model_state_dict
---@return table optim_state_dict
function state_dict.get_state_dict(...)
  local model, optim, full, on_host = read_get(...)
  local given_options = { full_state_dict = full, cpu_offload = on_host }
  return state_dict.get_model_state_dict(model, given_options),
    state_dict.get_optimizer_state_dict(model, optim, given_options)
end

local read_set = signature("set_state_dict(Module model, Optimizer optimizers, "
  .. "dict model_state_dict, dict optim_state_dict, bool full_state_dict=false, "
  .. "bool broadcast_from_rank0=false, bool strict=true)")

--- Loads the states that `get_state_dict` gave.
--- > net = ml.nn.Linear(2, 1)
--- > opt = ml.optim.Adam(net:parameters(), { lr = 0.1 })
--- > states = table.pack(ml.distributed.checkpoint.get_state_dict(net, opt))
--- > ml.distributed.checkpoint.set_state_dict(net, opt, states[1], states[2], {})
---   <All keys matched successfully>
---@param model table the model
---@param optimizers table the optimiser of its parameters
---@param model_state_dict table the model's state
---@param optim_state_dict table the optimiser's state
---@param full_state_dict? boolean whether their tensors are whole
---@param broadcast_from_rank0? boolean whether rank 0 alone gives them
---@param strict? boolean whether missing and unexpected names of the model are an error
---@return table keys as of `load_state_dict`
function state_dict.set_state_dict(...)
  local model, optim, of_model, of_optim, full, broadcasts, strict = read_set(...)
  local given_options = { full_state_dict = full, broadcast_from_rank0 = broadcasts }
  state_dict.set_optimizer_state_dict(model, optim, of_optim, given_options)
  given_options.strict = strict
  return state_dict.set_model_state_dict(model, of_model, given_options)
end

return state_dict
