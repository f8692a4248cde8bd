-- stdlib/optim/warm_restarts.lua: CosineAnnealingWarmRestarts.

local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

--- Cosine annealing with warm restarts: down along half a cosine, then from the top again. lr_0 is
--- the first rate, t the epoch in the cycle and n its length.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 2)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1.0, 0.5, 1.0, 0.5, 1.0}
---@param optimizer the optimiser whose rates are set
---@param T_0 how many epochs the first cycle has
---@param T_mult by which factor each cycle is longer than the one before
---@param eta_min the least rate
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = eta_min + (lr_0 - eta_min) (1 + cos(pi t / n)) / 2
---@source Loshchilov and Hutter, 2017: SGDR: stochastic gradient descent with warm restarts
local CosineAnnealingWarmRestarts = schedule.define("CosineAnnealingWarmRestarts")

local read = signature("optim.lr_scheduler.CosineAnnealingWarmRestarts(Optimizer optimizer, "
  .. "int>=1 T_0, int>=1 T_mult=1, number eta_min=0.0, int>=-1 last_epoch=-1)")

function CosineAnnealingWarmRestarts:init(...)
  local optimizer, T_0, T_mult, eta_min, last_epoch = read(...)
  self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
  self.T_cur = last_epoch
  schedule.LRScheduler.init(self, optimizer, last_epoch)
end

function CosineAnnealingWarmRestarts:get_lr()
  local part, rates = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2, {}
  for i in ipairs(self.optimizer.param_groups) do
    rates[i] = self.eta_min + (self.base_lrs[i] - self.eta_min) * part
  end
  return rates
end

-- The cycle that holds an epoch, and the position in it.
local function find_cycle(self, epoch)
  local length, start = self.T_0, 0
  if self.T_mult == 1 then
    start = epoch // length * length
  else
    while epoch >= start + length do start, length = start + length, length * self.T_mult end
  end
  self.T_i, self.T_cur = length, epoch - start
end

local read_step = signature "CosineAnnealingWarmRestarts:step(number>=0? epoch=nil)"

--- Goes on by one epoch, or to a given one, which may be a fraction: `step(epoch + batch /
--- batches)`.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 2)
--- > opt:step() scheduler:step(0.5)
--- > opt.param_groups[1].lr
---   0.85355339059327
---@param epoch? number the epoch to go to, from 0: the next unless given
function CosineAnnealingWarmRestarts:step(...)
  local epoch = read_step(...)
  schedule.note_bases(self)
  if not epoch and self.last_epoch < 0 then epoch = 0 end
  if epoch then
    find_cycle(self, epoch)
  else
    epoch = self.last_epoch + 1
    self.T_cur = self.T_cur + 1
    if self.T_cur >= self.T_i then
      self.T_cur = self.T_cur % self.T_i
      self.T_i = self.T_i * self.T_mult
    end
  end
  self.last_epoch = math.floor(epoch)
  schedule.apply(self, self:get_lr())
end

return CosineAnnealingWarmRestarts
