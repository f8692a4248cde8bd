-- stdlib/optim/lr_scheduler.lua: optim.lr_scheduler: schedules that change the learning rates of an
-- optimiser's groups at each step (epoch). They are chained: each starts from the rate that a group
-- has, so that several schedules on one optimiser, and rates that are set by hand, work together.

local notes = require "moonlet.files.notes"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

local fail = options.fail
local LRScheduler, define = schedule.LRScheduler, schedule.define

local lr_scheduler = { LRScheduler = LRScheduler,
  ReduceLROnPlateau = require "moonlet.optim.plateau",
  SequentialLR = require "moonlet.optim.sequential",
  ChainedScheduler = require "moonlet.optim.chained",
  CyclicLR = require "moonlet.optim.cyclic", OneCycleLR = require "moonlet.optim.one_cycle",
  CosineAnnealingWarmRestarts = require "moonlet.optim.warm_restarts" }

-- The rates of the groups, each times factor(i).
local function times(self, factor)
  local out = {}
  for i, group in ipairs(self.optimizer.param_groups) do
    out[i] = numbers.value(group.lr) * factor(i)
  end
  return out
end

local function present(self) return times(self, function() return 1 end) end

-- The first rates of the groups, each as value(base, i).
local function from_base(self, value)
  local out = {}
  for i in ipairs(self.optimizer.param_groups) do out[i] = value(self.base_lrs[i], i) end
  return out
end

--- Step decay: multiplies the rates by `gamma` every `step_size` epochs. lr_0 is the first rate and
--- t the epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.StepLR(opt, 2)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 1, 0.1, 0.1, 0.01}
---@param optimizer the optimiser whose rates are set
---@param step_size how many epochs lie between decays
---@param gamma the factor
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 gamma^(floor(t / step_size))
local StepLR = define("StepLR", "int>=1 step_size, number gamma=0.1")
lr_scheduler.StepLR = StepLR

function StepLR:get_lr()
  if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return present(self) end
  return times(self, function() return self.gamma end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.StepLR(opt, 2)
--- > scheduler:get_closed_form_lr()
---   {1.0}
---@return number[] rates
function StepLR:get_closed_form_lr()
  return from_base(self, function(base)
    return base * self.gamma ^ (self.last_epoch // self.step_size)
  end)
end

--- Step decay at given epochs: multiplies the rates by `gamma` at each milestone. n is the number
--- of milestones up to the epoch; lr_0 is the first rate and t the epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.MultiStepLR(opt, { 1, 3 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 0.1, 0.1, 0.01, 0.01}
---@param optimizer the optimiser whose rates are set
---@param milestones the epochs
---@param gamma the factor
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 gamma^n
local MultiStepLR = define("MultiStepLR", "int[] milestones, number gamma=0.1", function(o)
  local counts = {}
  for _, milestone in ipairs(o.milestones) do counts[milestone] = (counts[milestone] or 0) + 1 end
  o.milestones = counts
end)
lr_scheduler.MultiStepLR = MultiStepLR

--- How many milestones a condition holds for.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.MultiStepLR(opt, { 1, 3 })
--- > scheduler:count(function(milestone) return milestone <= 2 end)
---   1
---@param matches fun(milestone: integer): boolean the condition, a function of the milestone
---@return integer
function MultiStepLR:count(matches)
  local n = 0
  for milestone, times_given in pairs(self.milestones) do
    if matches(milestone) then n = n + times_given end
  end
  return n
end

function MultiStepLR:get_lr()
  local n = self:count(function(milestone) return milestone == self.last_epoch end)
  if n == 0 then return present(self) end
  return times(self, function() return self.gamma ^ n end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.MultiStepLR(opt, { 1, 3 })
--- > scheduler:get_closed_form_lr()
---   {1.0}
---@return number[] rates
function MultiStepLR:get_closed_form_lr()
  local n = self:count(function(milestone) return milestone <= self.last_epoch end)
  return from_base(self, function(base) return base * self.gamma ^ n end)
end

--- Multiplies the rates by a factor for the first epochs. lr_0 is the first rate and t the epoch,
--- from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ConstantLR(opt, { factor = 0.5, total_iters = 2 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.5, 0.5, 1.0, 1.0, 1.0}
---@param optimizer the optimiser whose rates are set
---@param factor the factor, from 0 to 1
---@param total_iters for how many epochs
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 factor if t < total_iters, else lr_0
local ConstantLR = define("ConstantLR", "number>=0<=1 factor=1/3, int>=0 total_iters=5")
lr_scheduler.ConstantLR = ConstantLR

function ConstantLR:get_lr()
  if self.last_epoch == 0 then return times(self, function() return self.factor end) end
  if self.last_epoch ~= self.total_iters then return present(self) end
  return times(self, function() return 1 / self.factor end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ConstantLR(opt)
--- > scheduler:get_closed_form_lr()
---   {0.33333333333333}
---@return number[] rates
function ConstantLR:get_closed_form_lr()
  local factor = self.last_epoch >= self.total_iters and 1 or self.factor
  return from_base(self, function(base) return base * factor end)
end

--- Linear warm-up or decay: multiplies the rates by a factor that changes evenly. lr_0 is the first
--- rate and t the epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.LinearLR(opt, { start_factor = 0.25, total_iters = 3 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.25, 0.5, 0.75, 1.0, 1.0}
---@param optimizer the optimiser whose rates are set
---@param start_factor the factor of the first epoch, above 0 and at most 1
---@param end_factor the factor from `total_iters` on, from 0 to 1
---@param total_iters how many epochs the change takes
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 (start_factor + (end_factor - start_factor) min(1, t / total_iters))
local LinearLR = define("LinearLR",
  "number>0<=1 start_factor=1/3, number>=0<=1 end_factor=1.0, int>=1 total_iters=5")
lr_scheduler.LinearLR = LinearLR

function LinearLR:get_lr()
  if self.last_epoch == 0 then return times(self, function() return self.start_factor end) end
  if self._is_initial or self.last_epoch > self.total_iters then return present(self) end
  local rise = self.end_factor - self.start_factor
  local before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
  return times(self, function() return 1 + rise / before end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.LinearLR(opt)
--- > scheduler:get_closed_form_lr()
---   {0.33333333333333}
---@return number[] rates
function LinearLR:get_closed_form_lr()
  local part = math.min(self.total_iters, self.last_epoch) / self.total_iters
  return from_base(self, function(base)
    return base * (self.start_factor + (self.end_factor - self.start_factor) * part)
  end)
end

--- Exponential decay: multiplies the rates by `gamma` every epoch. lr_0 is the first rate and t the
--- epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 0.5, 0.25, 0.125, 0.0625}
---@param optimizer the optimiser whose rates are set
---@param gamma the factor
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 gamma^t
local ExponentialLR = define("ExponentialLR", "number gamma")
lr_scheduler.ExponentialLR = ExponentialLR

function ExponentialLR:get_lr()
  if self._is_initial then return present(self) end
  return times(self, function() return self.gamma end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > scheduler:get_closed_form_lr()
---   {1.0}
---@return number[] rates
function ExponentialLR:get_closed_form_lr()
  return from_base(self, function(base) return base * self.gamma ^ self.last_epoch end)
end

--- Polynomial decay to 0. lr_0 is the first rate and t the epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.PolynomialLR(opt, { total_iters = 4 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 0.75, 0.5, 0.25, 0.0}
---@param optimizer the optimiser whose rates are set
---@param total_iters how many epochs the decay takes
---@param power the exponent
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 (1 - min(1, t / total_iters))^power
local PolynomialLR = define("PolynomialLR", "int>=1 total_iters=5, number power=1.0")
lr_scheduler.PolynomialLR = PolynomialLR

function PolynomialLR:get_lr()
  if self._is_initial or self.last_epoch > self.total_iters then return present(self) end
  local left = (self.total_iters - self.last_epoch) / (self.total_iters - self.last_epoch + 1)
  return times(self, function() return left ^ self.power end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.PolynomialLR(opt)
--- > scheduler:get_closed_form_lr()
---   {1.0}
---@return number[] rates
function PolynomialLR:get_closed_form_lr()
  local left = 1 - math.min(self.total_iters, self.last_epoch) / self.total_iters
  return from_base(self, function(base) return base * left ^ self.power end)
end

--- Cosine annealing: down along half a cosine in `T_max` epochs, then up again. lr_0 is the first
--- rate and t the epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 0.85355339059327, 0.5, 0.14644660940673, 0.0}
---@param optimizer the optimiser whose rates are set
---@param T_max half of the period, in epochs
---@param eta_min the least rate
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = eta_min + (lr_0 - eta_min) (1 + cos(pi t / T_max)) / 2
---@source Loshchilov and Hutter, 2017: SGDR: stochastic gradient descent with warm restarts
local CosineAnnealingLR = define("CosineAnnealingLR", "int>=1 T_max, number eta_min=0.0")
lr_scheduler.CosineAnnealingLR = CosineAnnealingLR

local function cosine(self, epoch) return 1 + math.cos(math.pi * epoch / self.T_max) end

function CosineAnnealingLR:get_lr()
  local epoch, low = self.last_epoch, self.eta_min
  if self._is_initial then return present(self) end
  if self._step_count == 1 and epoch > 0 then return self:get_closed_form_lr() end
  local groups = self.optimizer.param_groups
  local function rate(i) return numbers.value(groups[i].lr) end
  if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0 then
    local first = (1 - math.cos(math.pi / self.T_max)) / 2
    return from_base(self, function(base, i) return rate(i) + (base - low) * first end)
  end
  local ratio = cosine(self, epoch) / cosine(self, epoch - 1)
  return from_base(self, function(_, i) return ratio * (rate(i) - low) + low end)
end

--- The rates of the present epoch from the first ones alone.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
--- > scheduler:get_closed_form_lr()
---   {1.0}
---@return number[] rates
function CosineAnnealingLR:get_closed_form_lr()
  return from_base(self, function(base)
    return self.eta_min + (base - self.eta_min) * cosine(self, self.last_epoch) / 2
  end)
end

-- The functions of a schedule, one for each group: given as an array, or one for all.
local function functions_of(name, given, groups)
  if type(given) == "table" and #given ~= #groups then
    fail("%s: 'lr_lambda' has %d functions, the optimiser %d groups", name, #given, #groups)
  end
  return function(i)
    local f = type(given) == "table" and not getmetatable(given) and given[i] or given
    if type(f) == "table" and not getmetatable(f) then
      fail("%s: group %d was added later and has no function", name, i)
    end
    return function(epoch)
      local value = f(epoch)
      if type(value) == "number" then return value end
      fail("%s: 'lr_lambda' must return a number, got %s", name, signature.describe(value))
    end
  end
end

local function define_lambda(name)
  local cls = define(name)
  local read = signature(("optim.lr_scheduler.%s(Optimizer optimizer, "
    .. "function|function[] lr_lambda, int>=-1 last_epoch=-1)"):format(name))
  function cls:init(...)
    local optimizer, lr_lambda, last_epoch = read(...)
    self.function_of = functions_of(name, lr_lambda, optimizer.param_groups)
    -- PyTorch's name: None for each, as functions are not saved.
    self.lr_lambdas = notes.list({}, #optimizer.param_groups)
    LRScheduler.init(self, optimizer, last_epoch)
  end
  return cls
end

--- Multiplies the first rates by a function of the epoch. lr_0 is the first rate and t the epoch,
--- from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.LambdaLR(opt, function(epoch) return 1 / (1 + epoch) end)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1.0, 0.5, 0.33333333333333, 0.25, 0.2}
---@param optimizer the optimiser whose rates are set
---@param lr_lambda the function of the epoch, from 0, or an array with one for each group
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 f(t)
local LambdaLR = define_lambda("LambdaLR")
lr_scheduler.LambdaLR = LambdaLR

function LambdaLR:get_lr()
  return from_base(self, function(base, i) return base * self.function_of(i)(self.last_epoch) end)
end

--- Multiplies the rates by a function of the epoch, every epoch. lr_0 is the first rate and t the
--- epoch, from 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.MultiplicativeLR(opt, function() return 0.5 end)
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {1, 0.5, 0.25, 0.125, 0.0625}
---@param optimizer the optimiser whose rates are set
---@param lr_lambda the function of the epoch, from 1, or an array with one for each group
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = lr_0 prod_{k = 1}^t f(k)
local MultiplicativeLR = define_lambda("MultiplicativeLR")
lr_scheduler.MultiplicativeLR = MultiplicativeLR

function MultiplicativeLR:get_lr()
  if self._is_initial then return present(self) end
  return times(self, function(i) return self.function_of(i)(self.last_epoch) end)
end

return options.namespace("optim.lr_scheduler", lr_scheduler)
