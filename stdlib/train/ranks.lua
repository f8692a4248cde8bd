-- stdlib/train/ranks.lua: what ml.train.fit does where ml.distributed has several ranks: the model
-- averages its gradients over them, sums and metrics are those of all, one rank writes, and all
-- decide alike.

local DistributedDataParallel =
  require("moonlet.distributed.data_parallel").DistributedDataParallel
local checkpoints = require "moonlet.train.checkpoint"
local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local samplers = require "moonlet.data.sampler"
local fail = options.fail

local ranks = {}

-- --- the start ----------------------------------------------------------------------------------

-- The order in which a loader takes examples.
local function order_of(loader)
  local batches = rawget(loader, "batches")
  if class.is_instance(batches, samplers.BatchSampler) then return batches.source end
  return batches
end

local function distributed_sampler(loader)
  local order = loader and order_of(loader)
  return class.is_instance(order, samplers.DistributedSampler) and order or nil
end

-- What all ranks must have alike, as texts by name.
local function described(run)
  local names = {}
  for name in pairs(run.metrics) do names[#names + 1] = name end
  table.sort(names)
  local out = { ["'data'"] = #run.data .. " batches", ["'epochs'"] = run.epochs,
    ["'accumulate'"] = run.accumulate, ["'metrics'"] = table.concat(names, ", ") }
  for _, name in ipairs { "valid", "checkpoint", "resume", "early_stopping", "scheduler" } do
    out["'" .. name .. "'"] = run[name] and "given" or "not given"
  end
  local sampler = distributed_sampler(run.data)
  out["the seed of 'data'"] = sampler and sampler.seed or nil
  return out
end

local function check_alike(run, all)
  for r, other in ipairs(all) do
    for name, text in pairs(other.described) do
      local own = all[run.rank + 1].described[name]
      if own ~= text then
        fail("fit: all ranks must call it alike: %s is %s on rank %d, and %s on rank %d", name,
          own, run.rank, text, r - 1)
      end
    end
  end
end

local function check_metrics(run)
  for name, metric in pairs(run.metrics) do
    if type(metric.merge_state) ~= "function" then
      fail("fit: metric '%s' has no method merge_state, by which those of %d ranks become one",
        name, run.world_size)
    end
  end
end

local function warn_of_same_data(run)
  if run.rank > 0 or class.of(order_of(run.data)) ~= samplers.SequentialSampler then return end
  ml._warn_once("train.fit ranks", ("fit: all %d ranks get all examples of 'data', in the same "
    .. "order; a loader that is made after init_process_group gives each its part")
    :format(run.world_size))
end

--- Makes a run one of several ranks.
---@param run table
---@param world table the group of all ranks
function ranks.begin(run, world)
  run.world, run.rank, run.world_size = world, world.rank, world.size
  check_metrics(run)
  local steps = false
  for _, callbacks in ipairs(run.callbacks) do steps = steps or callbacks.on_step ~= nil end
  local all = {}
  objects.all_gather_object(all, { described = described(run), calls = #run.callbacks > 0,
    steps = steps })
  check_alike(run, all)
  for _, other in ipairs(all) do
    run.agrees = run.agrees or other.calls
    run.agrees_at_steps = run.agrees_at_steps or other.steps
  end
  warn_of_same_data(run)
  run.parallel = class.is_instance(run.model, DistributedDataParallel) and run.model
    or DistributedDataParallel(run.model)
end

--- The module itself, without what averages its gradients.
---@param model table
---@return table
function ranks.bare(model)
  return class.is_instance(model, DistributedDataParallel) and model.module or model
end

-- --- an epoch -----------------------------------------------------------------------------------

--- Draws the order of an epoch, the same on all ranks.
function ranks.begin_epoch(run)
  local sampler = distributed_sampler(run.data)
  if sampler then sampler:set_epoch(run.epoch) end
end

--- While the result lives, ranks take no example of the validation twice.
function ranks.validating(run)
  local sampler = distributed_sampler(run.valid)
  return sampler and sampler:_without_repeats() or nil
end

--- Whether any rank wants to stop, where callbacks could.
---@param run table
---@return boolean
function ranks.stops(run)
  local flag = ml.tensor({ run.stop and 1 or 0 }, { dtype = ml.int32 })
  collectives.all_reduce(flag, "max")
  return flag:item() > 0
end

--- The sums of all ranks, in their order: the same on each.
---@param run table
---@param loss number
---@param count integer
---@return number loss
---@return number count
function ranks.total(run, loss, count)
  local all = ml.zeros(run.world_size, 2, { dtype = ml.float64 })
  collectives.all_gather_into_tensor(all, ml.tensor({ loss, count }, { dtype = ml.float64 }))
  loss, count = 0.0, 0.0
  for r = 1, run.world_size do
    loss, count = loss + all[{ r, 1 }]:item(), count + all[{ r, 2 }]:item()
  end
  return loss, count
end

local function fields_of(metric)
  local out = {}
  for name, value in next, metric do
    if name ~= "options" then out[name] = value end
  end
  return out
end

--- Makes each metric that of the batches of all ranks.
function ranks.merge_metrics(run)
  local own, all = {}, {}
  for name, metric in pairs(run.metrics) do own[name] = fields_of(metric) end
  if next(own) == nil then return end
  local sent, message = pcall(objects.all_gather_object, all, own)
  if not sent then
    fail("fit: the metrics of other ranks: %s", (tostring(message):gsub("^[^\n]-:%d+: ", "")))
  end
  for name, metric in pairs(run.metrics) do
    local others = {}
    for r = 1, run.world_size do
      local other = all[r][name]
      other.options = rawget(metric, "options")
      others[r] = setmetatable(other, getmetatable(metric))
    end
    metric:reset()
    metric:merge_state(others)
  end
end

-- --- checkpoints --------------------------------------------------------------------------------

-- The states of an optimiser that shards them, on one rank or on all.
local function gather_optimizer(run, to)
  if class.lookup(run.optimizer, "consolidate_state_dict") then
    run.optimizer:consolidate_state_dict(to)
  end
end

--- Makes ready to save on rank 0. Gives what differs by rank: the random numbers.
---@param run table
---@return table[] states by rank
function ranks.states(run)
  gather_optimizer(run, 0)
  local all = {}
  objects.all_gather_object(all, { rng = ml.get_rng_state(),
    data = checkpoints.loader_states(run.data),
    valid = run.valid and checkpoints.loader_states(run.valid) or nil })
  return all
end

--- The file of a checkpoint as rank 0 reads it, on all ranks, which are then ready to load it; nil
--- where there is none.
---@param from table the checkpoint
---@param must_exist boolean
---@return table?
function ranks.read(run, from, must_exist)
  local list = {}
  if run.rank == 0 and (must_exist or from:exists()) then
    local read, value = pcall(checkpoints.read, from.path)
    list = { { read = read, value = value } }
  end
  objects.broadcast_object_list(list, 0)
  local found = list[1]
  if not found then return nil end
  if not found.read then fail("%s", (tostring(found.value):gsub("^[^\n]-:%d+: ", ""))) end
  gather_optimizer(run)
  return found.value
end

--- Loads what `ranks.states` gave into this rank; one that it has none of keeps its own random
--- numbers.
---@param run table
---@param states table[]? by rank
---@param before table the random numbers before the checkpoint was loaded
function ranks.restore(run, states, before)
  local own = type(states) == "table" and states[run.rank + 1]
  if not own then
    if run.rank > 0 then ml.set_rng_state(before) end
    return
  end
  ml.set_rng_state(own.rng)
  checkpoints.set_loader_states(run.data, own.data)
  if run.valid then checkpoints.set_loader_states(run.valid, own.valid) end
end

return ranks
