-- stdlib/optim/chained.lua: ChainedScheduler, several schedules as one.

local class = require "moonlet.class"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

--- Schedules at the same time: a step is one of each, so that their factors multiply.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > lrs = ml.optim.lr_scheduler
--- > warmup = lrs.ConstantLR(opt, { factor = 0.5, total_iters = 2 })
--- > scheduler = lrs.ChainedScheduler { warmup, lrs.ExponentialLR(opt, 0.5) }
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.5, 0.25, 0.25, 0.125, 0.0625}
---@param schedulers the schedules, all of one optimiser
---@param optimizer their optimiser, which must be that of the schedules: nil takes it from them
local ChainedScheduler = class.strict(class("ChainedScheduler", schedule.LRScheduler))

local read = signature("optim.lr_scheduler.ChainedScheduler(Schedule[] schedulers, "
  .. "Optimizer? optimizer=nil)")

local function note_rates(self)
  self._last_lr = schedule.rates_of(self.optimizer)
end

function ChainedScheduler:init(...)
  local schedulers, optimizer = read(...)
  optimizer = optimizer or schedulers[1] and schedulers[1].optimizer
  schedule.check_inner("ChainedScheduler", optimizer, schedulers)
  self.optimizer, self._schedulers = optimizer, schedulers
  note_rates(self)
end

local read_step = signature "ChainedScheduler:step()"

--- Goes on by one epoch in each schedule.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ChainedScheduler { ml.optim.lr_scheduler.ExponentialLR(opt,
---   0.5) }
--- > opt:step() scheduler:step()
--- > opt.param_groups[1].lr
---   0.5
function ChainedScheduler:step(...)
  read_step(...)
  for _, inner in ipairs(self._schedulers) do inner:step() end
  note_rates(self)
end

return ChainedScheduler
