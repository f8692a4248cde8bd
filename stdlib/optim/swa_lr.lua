-- stdlib/optim/swa_lr.lua: SWALR, the schedule of stochastic weight averaging.

local numbers = require "moonlet.optim.numbers"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

--- Anneals the rates to a constant one for stochastic weight averaging. lr_0 is the rate that a
--- group has, lr_n is `swa_lr`, t the epoch and n is `anneal_epochs`.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.swa_utils.SWALR(opt, 0.1,
---   { anneal_epochs = 4, anneal_strategy = "linear" })
--- > rates = {}
--- > for i = 1, 6 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1.0, 0.775, 0.55, 0.325, 0.1, 0.1}
---@param optimizer the optimiser whose rates are set
---@param swa_lr the rate to reach: a number, or one for each group
---@param anneal_epochs how many epochs it takes
---@param anneal_strategy "cos" "cos" along a cosine, or "linear"
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_n + (lr_0 - lr_n) (1 + cos(pi min(1, t / n))) / 2
---@source Izmailov et al., 2018: Averaging weights leads to wider optima and better generalization
local SWALR = schedule.define("SWALR")

local read = signature("optim.swa_utils.SWALR(Optimizer optimizer, number|number[] swa_lr, "
  .. 'int>=0 anneal_epochs=10, Anneal anneal_strategy="cos", int>=-1 last_epoch=-1)')

function SWALR:init(...)
  local optimizer, swa_lr, anneal_epochs, anneal_strategy, last_epoch = read(...)
  local rates = schedule.per_group("SWALR", "swa_lr", optimizer, swa_lr)
  for i, group in ipairs(optimizer.param_groups) do group.swa_lr = rates[i] end
  self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
  schedule.LRScheduler.init(self, optimizer, last_epoch)
end

-- How much of a group's rate is swa_lr after `step` steps.
local function part(self, step)
  local x = math.max(0, math.min(1, step / math.max(1, self.anneal_epochs)))
  return self._anneal_strategy == "linear" and x or (1 - math.cos(math.pi * x)) / 2
end

function SWALR:get_lr()
  local step, rates = self._step_count - 1, {}
  if self.anneal_epochs == 0 then step = math.max(1, step) end
  local before, now = part(self, step - 1), part(self, step)
  for i, group in ipairs(self.optimizer.param_groups) do
    local lr = numbers.value(group.lr)
    local goal = group.swa_lr or lr
    local first = before == 1 and goal or (lr - before * goal) / (1 - before)
    rates[i] = goal * now + first * (1 - now)
  end
  return rates
end

return SWALR
