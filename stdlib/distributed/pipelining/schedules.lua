-- stdlib/distributed/pipelining/schedules.lua: in which order a stage of a pipeline has forward and
-- backward of its microbatches.

local class = require "moonlet.class"
local microbatches = require "moonlet.distributed.pipelining.microbatches"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.distributed.pipelining.stage"  -- for the type PipelineStage
local fail = options.fail

local schedules = {}

-- --- what all schedules have --------------------------------------------------------------------

local Schedule = class "PipelineSchedule"

local function init(self, name, stage, count, loss_fn, scale)
  self.name, self.stage, self.n_microbatches = name, stage, count
  self.loss_fn, self.scale_grads = loss_fn, scale
end

local function is_named(value)
  return type(value) == "table" and getmetatable(value) == nil
    and (next(value) == nil or type(next(value)) == "string")
end

local read_step = signature('step(any target=nil, table? losses=nil, dict? kwargs=nil, '
  .. 'bool return_outputs=true)')

-- The arguments of the layers, and the options at the end.
local function arguments(where, ...)
  local args = table.pack(...)
  local given = {}
  if args.n > 0 and is_named(args[args.n]) then
    given, args.n = args[args.n], args.n - 1
  end
  return args, read_step:subset(where, given)
end

-- By microbatch, `{ n = count, ... }`.
local function split_args(where, args, count)
  local out = {}
  for m = 1, count do out[m] = { n = args.n } end
  for i = 1, args.n do
    local list = microbatches.split(where, ("input %d"):format(i), args[i], count)
    for m = 1, count do out[m][i] = list[m] end
  end
  return out
end

local function check(self, where, args, given, backward)
  local stage = self.stage
  if stage.is_first and args.n == 0 and not given.kwargs then
    fail("%s: stage 0 takes the batch, got nothing", where)
  elseif not stage.is_first and args.n > 0 then
    fail("%s: stage 0 alone takes the batch, got %d arguments on stage %d", where, args.n,
      stage.stage_index)
  elseif stage.is_last and backward and given.target == nil then
    fail("%s: 'target' must be given on stage %d, which has the loss", where, stage.stage_index)
  end
end

-- The step of this stage: `given` are its options, actions `{ "F" or "B", microbatch }`.
local function run(self, where, args, given, backward)
  check(self, where, args, given, backward)
  local stage, count = self.stage, self.n_microbatches
  local function split(name, value)
    return value ~= nil and microbatches.split(where, name, value, count) or nil
  end
  stage:_begin { name = where, count = count, backward = backward, scale = self.scale_grads,
    args = split_args(where, args, count), kwargs = split("kwargs", given.kwargs),
    target = stage.is_last and split("target", given.target) or nil,
    loss_fn = given.target ~= nil and self.loss_fn or nil, keeps = given.return_outputs ~= false }
  local actions = backward and self:_actions(count, stage.num_stages, stage.stage_index) or {}
  for m = 1, backward and 0 or count do actions[m] = { "F", m } end
  for i, action in ipairs(actions) do
    local following = actions[i + 1]
    -- What comes next is on its way while this is computed. The first forward must have said what
    -- comes before anything else can be awaited.
    if action[1] == "F" then stage:_expect_forward(action[2]) end
    if following and following[1] == "F" then stage:_expect_forward(following[2]) end
    if following and following[1] == "B" then stage:_expect_backward(following[2]) end
    if action[1] == "F" then stage:_forward(action[2]) else stage:_backward(action[2]) end
  end
  local outputs, losses = stage:_end()
  if given.losses then
    for i = #given.losses, 1, -1 do given.losses[i] = nil end
    table.move(losses, 1, #losses, 1, given.losses)
  end
  if stage.is_last then return microbatches.merge(outputs) end
end

--- Trains with a batch: forward and backward of all microbatches, whose gradients add up. All ranks
--- of the pipeline must call it: stage 0 with the batch, the last one with the target.
--- > ml.distributed.init_process_group()
--- > pp = ml.distributed.pipelining
--- > stage = pp.PipelineStage(ml.nn.Linear(2, 1), 0, 1)
--- > schedule = pp.ScheduleGPipe(stage, 2, ml.nn.functional.mse_loss)
--- > losses = {}
--- > schedule:step(ml.ones(4, 2), { target = ml.zeros(4, 1), losses = losses }).shape, #losses
---   (4, 1)	2
--- > ml.distributed.destroy_process_group()
---@param ... any on stage 0 the arguments of its layers, whose tensors have a row for each sample
---   of the batch; then by name: `target`, on the last stage, what `loss_fn` gets beside results;
---   `losses`, a table that gets the loss of each microbatch there; `kwargs`, named arguments of
---   this stage's layers, sharded as the batch is; `return_outputs` (true), whether the results are
---   returned, for which the last stage keeps them
---@return moonlet.Tensor ... on the last stage the results for the batch; nothing on the others
---@error a batch that is no multiple of the microbatches, stages that do not agree
function Schedule:step(...)
  local where = self.name .. ":step"
  local args, given = arguments(where, ...)
  local backward = self.loss_fn ~= nil
  if backward and not ml.is_grad_enabled() then
    fail("%s: there is no backward under no_grad; 'eval' runs forward alone", where)
  end
  if backward then return run(self, where, args, given, true) end
  return self:_forward_alone(where, args, given)
end

function Schedule:_forward_alone(where, args, given)
  local _ <close> = ml.no_grad()
  return run(self, where, args, given, false)
end

--- Runs a batch forward alone, without recording; losses where there are a `target` and a
--- `loss_fn`. It leaves the mode of the layers as it is: see `Module:eval`.
--- > ml.distributed.init_process_group()
--- > pp = ml.distributed.pipelining
--- > schedule = pp.ScheduleGPipe(pp.PipelineStage(ml.nn.Linear(2, 1), 0, 1), 2)
--- > schedule:eval(ml.ones(4, 2)).shape
---   (4, 1)
--- > ml.distributed.destroy_process_group()
---@param ... any as of `step`
---@return moonlet.Tensor ... on the last stage the results for the batch
function Schedule:eval(...)
  local where = self.name .. ":eval"
  local args, given = arguments(where, ...)
  return self:_forward_alone(where, args, given)
end

-- --- the schedules ------------------------------------------------------------------------------

local PARAMETERS = '(PipelineStage stage, int>=1 n_microbatches, function? loss_fn=nil, '
  .. 'bool scale_grads=true)'

local read_gpipe = signature("distributed.pipelining.ScheduleGPipe" .. PARAMETERS)

--- Schedule that runs forward of all microbatches, then backward of all: each stage has the
--- activations of all microbatches at once.
--- > ml.distributed.init_process_group()
--- > pp = ml.distributed.pipelining
--- > net = ml.nn.Linear(2, 1)
--- > schedule = pp.ScheduleGPipe(pp.PipelineStage(net, 0, 1), 2, ml.nn.functional.mse_loss)
--- > schedule:step(ml.ones(4, 2), { target = ml.zeros(4, 1) }).shape
---   (4, 1)
--- > net.weight.grad.shape
---   (1, 2)
--- > ml.distributed.destroy_process_group()
---@param stage table this rank's stage
---@param n_microbatches integer in how many parts of one size a batch goes through the stages, the
---   same on all ranks
---@param loss_fn? fun(output: moonlet.Tensor, target: any, ...): moonlet.Tensor the loss of a
---   microbatch, of the last stage's results and the target; given on all ranks. Without it there
---   is no backward
---@param scale_grads? boolean whether gradients are those of the mean of the losses; else of their
---   sum
---@source Huang et al., 2019: GPipe, efficient training of giant neural networks
---@see distributed.pipelining.Schedule1F1B
local ScheduleGPipe = class("ScheduleGPipe", Schedule)
schedules.ScheduleGPipe = ScheduleGPipe

function ScheduleGPipe:init(...)
  init(self, "ScheduleGPipe", read_gpipe(...))
end

function ScheduleGPipe:_actions(count)
  local out = {}
  for m = 1, count do out[m], out[count + m] = { "F", m }, { "B", m } end
  return out
end

local read_1f1b = signature("distributed.pipelining.Schedule1F1B" .. PARAMETERS)

--- Schedule in which each stage, once the pipeline is full, alternates between forward of one
--- microbatch and backward of another: stage i of n then has the activations of at most n - i
--- microbatches at once, however many there are.
--- > ml.distributed.init_process_group()
--- > pp = ml.distributed.pipelining
--- > net = ml.nn.Linear(2, 1)
--- > schedule = pp.Schedule1F1B(pp.PipelineStage(net, 0, 1), 2, ml.nn.functional.mse_loss)
--- > schedule:step(ml.ones(4, 2), { target = ml.zeros(4, 1) }).shape
---   (4, 1)
--- > ml.distributed.destroy_process_group()
---@param stage table this rank's stage
---@param n_microbatches integer in how many parts of one size a batch goes through the stages, the
---   same on all ranks
---@param loss_fn? fun(output: moonlet.Tensor, target: any, ...): moonlet.Tensor the loss of a
---   microbatch, of the last stage's results and the target; given on all ranks. Without it there
---   is no backward
---@param scale_grads? boolean whether gradients are those of the mean of the losses; else of their
---   sum
---@source Narayanan et al., 2019: PipeDream, generalized pipeline parallelism for DNN training
---@see distributed.pipelining.ScheduleGPipe
local Schedule1F1B = class("Schedule1F1B", Schedule)
schedules.Schedule1F1B = Schedule1F1B

function Schedule1F1B:init(...)
  init(self, "Schedule1F1B", read_1f1b(...))
end

function Schedule1F1B:_actions(count, stage_count, index)
  local ahead, out = math.min(count, stage_count - index), {}
  for m = 1, ahead do out[m] = { "F", m } end
  for m = 1, count do
    out[#out + 1] = { "B", m }
    if ahead + m <= count then out[#out + 1] = { "F", ahead + m } end
  end
  return out
end

return options.namespace("distributed.pipelining.schedules", schedules)
