-- stdlib/optim/lr_scheduler.lua: optim.lr_scheduler: schedules that set the learning rate of an
-- optimiser's groups from the number of steps (epochs) made so far.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local options = require "moonlet.options"

local lr_scheduler = {}

--- The base of schedules: `rate(initial, epoch)` gives the rate after `epoch` steps.
local Scheduler = class("Scheduler")
lr_scheduler.Scheduler = Scheduler

local function attach(self, optimizer)
  if not class.is_instance(optimizer, Optimizer) then
    options.fail("%s: an optimiser is wanted, got %s", class.name(class.of(self)), type(optimizer))
  end
  self.optimizer, self.epoch, self.initial = optimizer, 0, {}
  for i, group in ipairs(optimizer.param_groups) do self.initial[i] = group.lr end
  self:apply()
end

--- Sets the rates for the present epoch.
function Scheduler:apply()
  for i, group in ipairs(self.optimizer.param_groups) do
    group.lr = self:rate(self.initial[i] or group.lr, self.epoch, i)
  end
end

--- Goes on by one epoch.
function Scheduler:step()
  self.epoch = self.epoch + 1
  self:apply()
end

--- The rates of the groups: an array.
---@return number[]
function Scheduler:get_last_lr()
  local out = {}
  for i, group in ipairs(self.optimizer.param_groups) do out[i] = group.lr end
  return out
end

--- What it takes to go on in another run.
function Scheduler:state_dict()
  return { epoch = self.epoch, initial = { table.unpack(self.initial) } }
end

--- Takes over what `state_dict` gave.
function Scheduler:load_state_dict(dict)
  if type(dict) ~= "table" or type(dict.initial) ~= "table"
      or #dict.initial ~= #self.optimizer.param_groups then
    options.fail("load_state_dict: this is no state of a schedule for %d groups",
      #self.optimizer.param_groups)
  end
  self.epoch = options.integer("load_state_dict", "epoch", dict.epoch, 0)
  self.initial = { table.unpack(dict.initial) }
  self:apply()
end

--- `StepLR(optimizer, step_size, { gamma = 0.1 })`: times gamma every `step_size` epochs.
local StepLR = class("StepLR", Scheduler)
lr_scheduler.StepLR = StepLR
local read_step = options.signature("StepLR",
  { { "optimizer" }, { "step_size" }, { "gamma", 0.1 } })

function StepLR:init(...)
  local o = read_step(...)
  self.step_size = options.integer("StepLR", "step_size", o.step_size, 1)
  self.gamma = options.number("StepLR", "gamma", o.gamma, 0)
  attach(self, o.optimizer)
end

function StepLR:rate(initial, epoch)
  return initial * self.gamma ^ (epoch // self.step_size)
end

--- `CosineAnnealingLR(optimizer, T_max, { eta_min = 0 })`: down along half a cosine in `T_max`
--- epochs (Loshchilov and Hutter, 2017).
local CosineAnnealingLR = class("CosineAnnealingLR", Scheduler)
lr_scheduler.CosineAnnealingLR = CosineAnnealingLR
local read_cosine = options.signature("CosineAnnealingLR",
  { { "optimizer" }, { "T_max" }, { "eta_min", 0 } })

function CosineAnnealingLR:init(...)
  local o = read_cosine(...)
  self.T_max = options.integer("CosineAnnealingLR", "T_max", o.T_max, 1)
  self.eta_min = options.number("CosineAnnealingLR", "eta_min", o.eta_min, 0)
  attach(self, o.optimizer)
end

function CosineAnnealingLR:rate(initial, epoch)
  return self.eta_min + (initial - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2
end

--- `LambdaLR(optimizer, f)`: the initial rate times `f(epoch)`.
local LambdaLR = class("LambdaLR", Scheduler)
lr_scheduler.LambdaLR = LambdaLR

function LambdaLR:init(optimizer, f)
  if type(f) ~= "function" then
    options.fail("LambdaLR: a function of the epoch is wanted, got %s", type(f))
  end
  self.f = f
  attach(self, optimizer)
end

function LambdaLR:rate(initial, epoch) return initial * self.f(epoch) end

return options.namespace("optim.lr_scheduler", lr_scheduler)
