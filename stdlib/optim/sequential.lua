-- stdlib/optim/sequential.lua: SequentialLR, schedules one after the other.

local class = require "moonlet.class"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"
local fail = options.fail

--- Schedules one after the other, each up to a milestone. Each begins with its epoch 0 at its
--- milestone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > lrs = ml.optim.lr_scheduler
--- > warmup, decay = lrs.ConstantLR(opt, { factor = 0.5 }), lrs.ExponentialLR(opt, 0.5)
--- > scheduler = lrs.SequentialLR(opt, { warmup, decay }, { 2 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.5, 0.5, 1.0, 0.5, 0.25}
---@param optimizer the optimiser whose rates are set
---@param schedulers the schedules in their order
---@param milestones the epochs at which each but the first begins
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@error the schedules belong to another optimiser, or there are not one milestone less than
---   schedules
local SequentialLR = class.strict(class("SequentialLR", schedule.LRScheduler))

local read = signature("optim.lr_scheduler.SequentialLR(Optimizer optimizer, "
  .. "Schedule[] schedulers, int[] milestones, int>=-1 last_epoch=-1)")

-- Takes back the step that a schedule made when it was constructed.
local function undo(self)
  for _, inner in ipairs(self._schedulers or {}) do undo(inner) end
  if not self._schedulers then self.last_epoch = self.last_epoch - 1 end
end

local function check(optimizer, schedulers, milestones)
  schedule.check_inner("SequentialLR", optimizer, schedulers)
  if #milestones ~= #schedulers - 1 then
    fail("SequentialLR: %d schedules want %d milestones, got %d", #schedulers, #schedulers - 1,
      #milestones)
  end
end

function SequentialLR:init(...)
  local optimizer, schedulers, milestones, last_epoch = read(...)
  check(optimizer, schedulers, milestones)
  self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
  self.last_epoch = last_epoch + 1
  for _, group in ipairs(optimizer.param_groups) do
    schedule.set_rate(group, group.initial_lr)
  end
  undo(self)
  self:begin()
end

-- The number of the schedule that is on at that epoch.
local function schedule_at(self, epoch)
  local at = 1
  while self._milestones[at] and self._milestones[at] <= epoch do at = at + 1 end
  return at
end

--- Sets the rates that the first schedule begins with, or that whose milestone is 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > lrs = ml.optim.lr_scheduler
--- > warmup, decay = lrs.ConstantLR(opt, { factor = 0.5 }), lrs.ExponentialLR(opt, 0.5)
--- > scheduler = lrs.SequentialLR(opt, { warmup, decay }, { 2 })
--- > scheduler:begin()
--- > opt.param_groups[1].lr
---   0.5
function SequentialLR:begin()
  local first = self._schedulers[schedule_at(self, 0)]
  if first.begin then first:begin() else schedule.begin(first) end
  self._last_lr = first:get_last_lr()
end

local read_step = signature "SequentialLR:step()"

--- Goes on by one epoch.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > lrs = ml.optim.lr_scheduler
--- > warmup, decay = lrs.ConstantLR(opt, { factor = 0.5 }), lrs.ExponentialLR(opt, 0.5)
--- > scheduler = lrs.SequentialLR(opt, { warmup, decay }, { 1 })
--- > opt:step() scheduler:step()
--- > opt.param_groups[1].lr
---   1.0
function SequentialLR:step(...)
  read_step(...)
  self.last_epoch = self.last_epoch + 1
  local at = schedule_at(self, self.last_epoch)
  local inner = self._schedulers[at]
  if self._milestones[at - 1] == self.last_epoch and not inner._schedulers then
    schedule.advance(inner, 0)
  else
    inner:step()
  end
  self._last_lr = inner:get_last_lr()
end

return SequentialLR
