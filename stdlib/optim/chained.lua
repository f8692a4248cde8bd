-- stdlib/optim/chained.lua: ChainedScheduler, several schedules as one.

local class = require "moonlet.class"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

--- `ChainedScheduler({ warmup, decay })`: a step is one of each schedule, so that their factors
--- multiply.
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

--- Goes on by one epoch.
function ChainedScheduler:step(...)
  read_step(...)
  for _, inner in ipairs(self._schedulers) do inner:step() end
  note_rates(self)
end

return ChainedScheduler
