-- stdlib/distributed/pipelining/stage.lua: the layers that a rank has of a pipeline, and their
-- forward and backward of one microbatch.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local link = require "moonlet.distributed.pipelining.link"
local microbatches = require "moonlet.distributed.pipelining.microbatches"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local stages = {}

local read_class = signature('distributed.pipelining.PipelineStage(Module submodule, '
  .. 'int>=0 stage_index, int>=1 num_stages, string? device=nil, Group? group=nil)')

--- The layers that this rank has of a pipeline: one stage on each rank of a group, in their order.
--- What a stage gives, one or several tensors, is what the next one is called with; shapes and
--- dtypes are found when the first microbatch of a step comes by. A schedule runs it.
--- > ml.distributed.init_process_group()
--- > pp = ml.distributed.pipelining
--- > stage = pp.PipelineStage(ml.nn.Linear(2, 1), 0, 1)
--- > stage.is_first, stage.is_last
---   true	true
--- > ml.distributed.destroy_process_group()
---@param submodule table the layers; with `DistributedDataParallel` around them, or sharded by
---   `fully_shard`, gradients are sent in the backward of the last microbatch
---@param stage_index integer which stage it is, from 0: this rank's position in the group
---@param num_stages integer how many there are: the number of ranks of the group
---@param device? string where what comes in goes; that of the first parameter unless given
---@param group? table the group; all ranks unless given
---@field submodule table The layers.
---@field stage_index integer Which stage it is, from 0.
---@field num_stages integer How many there are.
---@field is_first boolean Whether it is the first one, which takes the batch.
---@field is_last boolean Whether it is the last one, which has the loss.
---@see distributed.pipelining.ScheduleGPipe distributed.pipelining.Schedule1F1B
local PipelineStage = class "PipelineStage"
stages.PipelineStage = PipelineStage

signature.add_type("PipelineStage", "a pipeline stage", function(value)
  return class.is_instance(value, PipelineStage) and value or nil
end)

function PipelineStage:init(...)
  local submodule, index, count, device, group = read_class(...)
  group = state.group_of("PipelineStage", group)
  if count ~= group.size then
    fail("PipelineStage: each rank has one stage: 'num_stages' must be %d, got %d", group.size,
      count)
  elseif index ~= group.rank then
    fail("PipelineStage: this rank is at %d in the group, so 'stage_index' must be that, got %d",
      group.rank, index)
  end
  self.submodule, self.stage_index, self.num_stages = submodule, index, count
  self.is_first, self.is_last = index == 0, index == count - 1
  local first = submodule:parameters()[1]
  self.device, self.group = device or first and first.device or nil, group
  self.before, self.after = group.ranks[index], group.ranks[index + 2]
end

function PipelineStage:__tostring()
  return ("PipelineStage %d of %d"):format(self.stage_index, self.num_stages)
end

-- --- one step -----------------------------------------------------------------------------------

--- Begins a step; `given` has count, backward, args and kwargs by microbatch, target by microbatch,
--- loss_fn, scale, name, and whether outputs are kept.
function PipelineStage:_begin(given)
  self.step = given
  self.live, self.sent, self.received, self.outputs, self.losses = {}, {}, {}, {}, {}
  self.comes, self.goes = nil, nil
end

function PipelineStage:_where(m)
  return ("stage %d, microbatch %d"):format(self.stage_index, m)
end

-- Runs what a script has made; an error says where it was.
local function run(self, m, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local message = results[2]
  if type(message) ~= "string" then error(message, 0) end
  local line, text = message:match "^([^\n]-:%d+: )(.*)$"
  error(("%s%s: %s: %s"):format(line or "", self.step.name, self:_where(m), text or message), 0)
end

-- What all stages must be told alike.
local AGREED = { "name", "count", "backward" }

-- What is to come, from the stage before.
local function read_header(self)
  local header = link.receive_header(self.before, self.group)
  for _, key in ipairs(AGREED) do
    if header[key] ~= self.step[key] then
      local words = { name = "the schedule", count = "the number of microbatches",
        backward = "whether there is a loss_fn, and so a backward," }
      fail("%s: %s must be the same on all stages: %s on stage %d, %s on stage %d", self.step.name,
        words[key], tostring(header[key]), self.stage_index - 1, tostring(self.step[key]),
        self.stage_index)
    end
  end
  return header.tensors
end

--- Begins to receive what forward of a microbatch takes.
function PipelineStage:_expect_forward(m)
  if self.is_first or self.received[m] then return end
  self.comes = self.comes or read_header(self)
  self.received[m] = link.receive(self.comes, m, false, self.before, self.group, self.device)
end

--- Begins to receive what backward of a microbatch takes.
function PipelineStage:_expect_backward(m)
  local live = self.live[m]
  if self.is_last or not live or live.pending then return end
  live.pending = link.receive(self.goes, m, true, self.after, self.group, self.device)
end

-- The arguments of the layers: the batch's, or what the stage before has given.
local function inputs_of(self, m)
  if self.is_first then return self.step.args[m] end
  self:_expect_forward(m)
  local tensors = link.finish(self.received[m])
  self.received[m] = nil
  if self.step.backward then
    for i, each in ipairs(self.comes) do
      if each.wants_gradient then tensors[i]:requires_grad_(true) end
    end
  end
  tensors.n = #tensors
  return tensors
end

local function give(self, m, outputs)
  local about = link.describe(self:_where(m), outputs)
  if self.goes then
    link.compare(self:_where(m), self.goes, about)
  else
    self.goes = about
    local header = { tensors = about }
    for _, key in ipairs(AGREED) do header[key] = self.step[key] end
    link.send_header(header, self.after, self.group)
  end
  link.send(outputs, m, false, self.after, self.group, self.sent)
end

local function loss_of(self, m, outputs)
  local target = self.step.target and self.step.target[m]
  local loss = run(self, m, self.step.loss_fn, outputs[1], target, table.unpack(outputs, 2))
  if not ml.is_tensor(loss) or loss:numel() ~= 1 then
    fail("%s: %s: 'loss_fn' must give a tensor of one element, got %s", self.step.name,
      self:_where(m), signature.describe(loss))
  end
  self.losses[m] = loss:detach()
  return loss
end

-- What ends with `<close>`: until then layers that send gradients of their own do not.
local function without_sync(layers)
  if class.is_instance(layers, ml.nn.parallel.DistributedDataParallel) then
    return layers:no_sync()
  elseif layers.set_requires_gradient_sync then  -- fully_shard has sharded them
    layers:set_requires_gradient_sync(false)
    return setmetatable({}, { __close = function() layers:set_requires_gradient_sync(true) end })
  end
end

-- Such layers send them in the last microbatch.
local function synced(self, m, f, ...)
  local _ <close> = m < self.step.count and without_sync(self.submodule) or nil
  return f(...)
end

--- Forward of a microbatch.
function PipelineStage:_forward(m)
  local inputs, kwargs = inputs_of(self, m), self.step.kwargs and self.step.kwargs[m]
  local arguments = table.move(inputs, 1, inputs.n, 1, { n = inputs.n })
  if kwargs then
    arguments.n = arguments.n + 1
    arguments[arguments.n] = kwargs
  end
  local outputs = microbatches.tensors(self:_where(m), run(self, m, synced, self, m,
    Module.__call, self.submodule, table.unpack(arguments, 1, arguments.n)))
  local live = { inputs = inputs, outputs = outputs }
  if self.step.backward then self.live[m] = live end
  if not self.is_last then return give(self, m, outputs) end
  if self.step.keeps then
    self.outputs[m] = {}
    for i, x in ipairs(outputs) do self.outputs[m][i] = x:detach() end
  end
  if self.step.loss_fn then
    live.loss, live.outputs = loss_of(self, m, outputs), nil
  end
end

-- Backward of the layers, of the loss or with the gradients that have come.
local function differentiate(self, live, gradients)
  if live.loss then
    local loss = live.loss
    if self.step.scale then loss = loss / self.step.count end
    return loss:backward()
  end
  local outputs, given = {}, {}
  for i, g in ipairs(gradients) do
    if g then outputs[#outputs + 1], given[#given + 1] = live.outputs[i], g end
  end
  if #outputs > 0 then ml.autograd.backward(outputs, { grad_tensors = given }) end
end

--- Backward of a microbatch.
function PipelineStage:_backward(m)
  self:_expect_backward(m)
  local live = self.live[m]
  local gradients = live.pending and link.finish(live.pending)
  self.live[m] = nil
  run(self, m, synced, self, m, differentiate, self, live, gradients)
  if self.is_first then return end
  local back = {}
  for i, each in ipairs(self.comes) do
    local x = live.inputs[i]
    back[i] = each.wants_gradient and (x.grad or ml.zeros_like(x)) or false
  end
  link.send(back, m, true, self.before, self.group, self.sent)
end

--- Waits until the neighbours have all that they get, and ends the step.
function PipelineStage:_end()
  for _, work in ipairs(self.sent) do work:wait() end
  local outputs, losses = self.outputs, self.losses
  self.step, self.live, self.sent, self.received, self.outputs, self.losses = nil, nil, nil, nil,
    nil, nil
  return outputs, losses
end

return options.namespace("distributed.pipelining.stage", stages)
