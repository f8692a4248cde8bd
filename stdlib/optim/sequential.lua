-- stdlib/optim/sequential.lua: SequentialLR, schedules one after the other.

local class = require "moonlet.class"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"
local fail = options.fail

signature.add_type("Schedule", "a schedule", function(value)
  return class.is_instance(value, schedule.LRScheduler) and value or nil
end)

--- `SequentialLR(optimizer, { warmup, decay }, { 5 })`: the first schedule up to epoch 5, then the
--- second, which begins with its epoch 0 there; `milestones` has an epoch for each but the first.
local SequentialLR = class("SequentialLR", schedule.LRScheduler)

local read = signature("optim.lr_scheduler.SequentialLR(Optimizer optimizer, "
  .. "Schedule[] schedulers, int[]>=1 milestones)")

-- Takes back the step that a schedule made when it was constructed.
local function undo(self)
  for _, inner in ipairs(self.schedulers or {}) do undo(inner) end
  if not self.schedulers then self.last_epoch = self.last_epoch - 1 end
end

local function check(optimizer, schedulers, milestones)
  if #schedulers == 0 then fail("SequentialLR: got no schedules") end
  for i, inner in ipairs(schedulers) do
    if inner.optimizer ~= optimizer then
      fail("SequentialLR: schedule %d is for another optimiser", i)
    elseif not inner.base_lrs and not inner.schedulers then
      fail("SequentialLR: schedule %d is a %s, whose step wants a value", i,
        class.name(class.of(inner)))
    end
  end
  if #milestones ~= #schedulers - 1 then
    fail("SequentialLR: %d schedules want %d milestones, got %d", #schedulers, #schedulers - 1,
      #milestones)
  end
end

function SequentialLR:init(...)
  local optimizer, schedulers, milestones = read(...)
  check(optimizer, schedulers, milestones)
  self.optimizer, self.schedulers, self.milestones = optimizer, schedulers, milestones
  self.last_epoch = 0
  for _, group in ipairs(optimizer.param_groups) do group.lr = group.initial_lr end
  undo(self)
  self:begin()
end

--- Sets the rates that the first schedule begins with.
function SequentialLR:begin()
  local first = self.schedulers[1]
  if first.begin then first:begin() else schedule.begin(first) end
  self.last_lr = first:get_last_lr()
end

local read_step = signature "SequentialLR:step()"

--- Goes on by one epoch.
function SequentialLR:step(...)
  read_step(...)
  self.last_epoch = self.last_epoch + 1
  local at = 1
  while self.milestones[at] and self.milestones[at] <= self.last_epoch do at = at + 1 end
  local inner = self.schedulers[at]
  if self.milestones[at - 1] == self.last_epoch and not inner.schedulers then
    schedule.advance(inner, 0)
  else
    inner:step()
  end
  self.last_lr = inner:get_last_lr()
end

local read_state = signature "SequentialLR:state_dict()"

--- What it takes to go on in another run, with the states of its schedules.
---@return table
function SequentialLR:state_dict(...)
  read_state(...)
  local states = {}
  for i, inner in ipairs(self.schedulers) do states[i] = inner:state_dict() end
  return { last_epoch = self.last_epoch, milestones = { table.unpack(self.milestones) },
    last_lr = self:get_last_lr(), schedulers = states }
end

local read_load = signature "SequentialLR:load_state_dict(dict state_dict)"

--- Takes over what `state_dict` gave.
---@param state_dict table
function SequentialLR:load_state_dict(...)
  local state = read_load(...)
  if type(state.schedulers) ~= "table" or #state.schedulers ~= #self.schedulers
      or math.type(state.last_epoch) ~= "integer" then
    fail("load_state_dict: this is no state of a sequence of %d schedules", #self.schedulers)
  end
  for i, inner in ipairs(self.schedulers) do inner:load_state_dict(state.schedulers[i]) end
  self.last_epoch = state.last_epoch
  self.milestones = { table.unpack(state.milestones) }
  self.last_lr = { table.unpack(state.last_lr) }
end

return SequentialLR
