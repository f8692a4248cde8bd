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

--- `StepLR(optimizer, step_size, { gamma = 0.1 })`: times gamma every `step_size` epochs.
local StepLR = define("StepLR", "int>=1 step_size, number gamma=0.1")
lr_scheduler.StepLR = StepLR

function StepLR:get_lr()
  if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return present(self) end
  return times(self, function() return self.gamma end)
end

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function StepLR:get_closed_form_lr()
  return from_base(self, function(base)
    return base * self.gamma ^ (self.last_epoch // self.step_size)
  end)
end

--- `MultiStepLR(optimizer, { 30, 80 }, { gamma = 0.1 })`: times gamma at each of the epochs.
local MultiStepLR = define("MultiStepLR", "int[] milestones, number gamma=0.1", function(o)
  local counts = {}
  for _, milestone in ipairs(o.milestones) do counts[milestone] = (counts[milestone] or 0) + 1 end
  o.milestones = counts
end)
lr_scheduler.MultiStepLR = MultiStepLR

--- How many milestones `matches` says yes to.
---@param matches fun(milestone: integer): boolean
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

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function MultiStepLR:get_closed_form_lr()
  local n = self:count(function(milestone) return milestone <= self.last_epoch end)
  return from_base(self, function(base) return base * self.gamma ^ n end)
end

--- `ConstantLR(optimizer, { factor = 1 / 3, total_iters = 5 })`: times `factor` for the first
--- epochs.
local ConstantLR = define("ConstantLR", "number>=0<=1 factor=1/3, int>=0 total_iters=5")
lr_scheduler.ConstantLR = ConstantLR

function ConstantLR:get_lr()
  if self.last_epoch == 0 then return times(self, function() return self.factor end) end
  if self.last_epoch ~= self.total_iters then return present(self) end
  return times(self, function() return 1 / self.factor end)
end

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function ConstantLR:get_closed_form_lr()
  local factor = self.last_epoch >= self.total_iters and 1 or self.factor
  return from_base(self, function(base) return base * factor end)
end

--- `LinearLR(optimizer, { start_factor = 1 / 3, end_factor = 1, total_iters = 5 })`: times a factor
--- that goes from one to the other, as a warm-up.
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

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function LinearLR:get_closed_form_lr()
  local part = math.min(self.total_iters, self.last_epoch) / self.total_iters
  return from_base(self, function(base)
    return base * (self.start_factor + (self.end_factor - self.start_factor) * part)
  end)
end

--- `ExponentialLR(optimizer, gamma)`: times gamma every epoch.
local ExponentialLR = define("ExponentialLR", "number gamma")
lr_scheduler.ExponentialLR = ExponentialLR

function ExponentialLR:get_lr()
  if self._is_initial then return present(self) end
  return times(self, function() return self.gamma end)
end

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function ExponentialLR:get_closed_form_lr()
  return from_base(self, function(base) return base * self.gamma ^ self.last_epoch end)
end

--- `PolynomialLR(optimizer, { total_iters = 5, power = 1 })`: down to 0 in `total_iters` epochs,
--- along a power of what is left of them.
local PolynomialLR = define("PolynomialLR", "int>=1 total_iters=5, number power=1.0")
lr_scheduler.PolynomialLR = PolynomialLR

function PolynomialLR:get_lr()
  if self._is_initial or self.last_epoch > self.total_iters then return present(self) end
  local left = (self.total_iters - self.last_epoch) / (self.total_iters - self.last_epoch + 1)
  return times(self, function() return left ^ self.power end)
end

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
function PolynomialLR:get_closed_form_lr()
  local left = 1 - math.min(self.total_iters, self.last_epoch) / self.total_iters
  return from_base(self, function(base) return base * left ^ self.power end)
end

--- `CosineAnnealingLR(optimizer, T_max, { eta_min = 0 })`: down along half a cosine in `T_max`
--- epochs, then up again (Loshchilov and Hutter, 2017).
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

--- The rates at `last_epoch` from the base rates alone: an array.
---@return number[]
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

--- `LambdaLR(optimizer, f)`: the first rate times `f(epoch)`; an array has a function for each
--- group.
local LambdaLR = define_lambda("LambdaLR")
lr_scheduler.LambdaLR = LambdaLR

function LambdaLR:get_lr()
  return from_base(self, function(base, i) return base * self.function_of(i)(self.last_epoch) end)
end

--- `MultiplicativeLR(optimizer, f)`: times `f(epoch)` every epoch; an array has a function for each
--- group.
local MultiplicativeLR = define_lambda("MultiplicativeLR")
lr_scheduler.MultiplicativeLR = MultiplicativeLR

function MultiplicativeLR:get_lr()
  if self._is_initial then return present(self) end
  return times(self, function(i) return self.function_of(i)(self.last_epoch) end)
end

return options.namespace("optim.lr_scheduler", lr_scheduler)
