-- stdlib/optim/cyclic.lua: CyclicLR, rates that go up and down.

local momenta = require "moonlet.optim.momenta"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

local NAME = "CyclicLR"

signature.add_choice("CycleMode", { "triangular", "triangular2", "exp_range" })
signature.add_choice("ScaleMode", { "cycle", "iterations" })

--- Cyclic rates: up and down between two bounds, with a step after each batch. With
--- `cycle_momentum` the momentum, or the first of the betas, moves the other way. a and b are the
--- bounds, h is the height of the cycle, and p rises from 0 to 1 and falls to 0.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1, momentum = 0.9 })
--- > scheduler = ml.optim.lr_scheduler.CyclicLR(opt, 0.1, 1, { step_size_up = 2 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.1, 0.55, 1.0, 0.55, 0.1}
---@param optimizer the optimiser whose rates are set
---@param base_lr the lower bound: a number, or one for each group
---@param max_lr the upper bound, if the height of cycles is 1: a number, or one for each group
---@param step_size_up how many steps the rise takes
---@param step_size_down how many steps the fall takes: as many unless given
---@param mode "triangular" "triangular" for cycles of the same height, "triangular2" halves it each
---   time, "exp_range" multiplies it by `gamma` each step
---@param gamma the factor of "exp_range"
---@param scale_fn gives the height of a cycle, of which 1 is all; `mode` is then ignored
---@param scale_mode what `scale_fn` gets: "cycle" the cycle, from 1, "iterations" the step
---@param cycle_momentum whether the momentum moves too
---@param base_momentum its lower bound: a number, or one for each group
---@param max_momentum its upper bound: a number, or one for each group
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula lr = a + (b - a) h p
---@error `cycle_momentum` for an optimiser without a momentum or betas
---@source Smith, 2017: Cyclical learning rates for training neural networks
local CyclicLR = schedule.define(NAME)

CyclicLR.unset = { "_scale_fn_custom" }

local read = signature("optim.lr_scheduler.CyclicLR(Optimizer optimizer, number|number[] base_lr, "
  .. "number|number[] max_lr, int>=1 step_size_up=2000, int>=1? step_size_down=nil, "
  .. 'CycleMode mode="triangular", number gamma=1.0, function? scale_fn=nil, '
  .. 'ScaleMode scale_mode="cycle", bool cycle_momentum=true, number|number[] base_momentum=0.8, '
  .. "number|number[] max_momentum=0.9, int>=-1 last_epoch=-1)")

local function init_momentum(self, o)
  self.cycle_momentum = o.cycle_momentum
  if not o.cycle_momentum then return end
  self.use_beta1 = momenta.in_betas(NAME, o.optimizer)
  self.base_momentums =
    schedule.per_group(NAME, "base_momentum", o.optimizer, o.base_momentum)
  self.max_momentums = schedule.per_group(NAME, "max_momentum", o.optimizer, o.max_momentum)
  if o.last_epoch == -1 then
    momenta.begin(o.optimizer, self.use_beta1, self.base_momentums, self.max_momentums)
  end
end

function CyclicLR:init(...)
  local o = read:table(...)
  local bases = schedule.per_group(NAME, "base_lr", o.optimizer, o.base_lr)
  self.max_lrs = schedule.per_group(NAME, "max_lr", o.optimizer, o.max_lr)
  local up, down = o.step_size_up + 0.0, (o.step_size_down or o.step_size_up) + 0.0
  self.total_size, self.step_ratio = up + down, up / (up + down)
  self.mode, self.gamma, self.scale_function = o.mode, o.gamma, o.scale_fn
  self.scale_mode = o.scale_mode
  if not o.scale_fn then self.scale_mode = o.mode == "exp_range" and "iterations" or "cycle" end
  init_momentum(self, o)
  if o.last_epoch == -1 then
    for i, group in ipairs(o.optimizer.param_groups) do
      schedule.set_rate(group, bases[i])
    end
  end
  schedule.LRScheduler.init(self, o.optimizer, o.last_epoch)
  self.base_lrs = bases
end

--- The height of a cycle, of which 1 is all.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { momentum = 0.9 })
--- > scheduler = ml.optim.lr_scheduler.CyclicLR(opt, 0.1, 1, { mode = "triangular2" })
--- > scheduler:scale_fn(3)
---   0.25
---@param x number the cycle, from 1, or with the scale mode "iterations" the step
---@return number
function CyclicLR:scale_fn(x)
  if self.scale_function then
    local height = self.scale_function(x)
    if type(height) == "number" then return height end
    options.fail("%s: 'scale_fn' must return a number, got %s", NAME, signature.describe(height))
  end
  if self.mode == "triangular2" then return 1 / 2.0 ^ (x - 1) end
  return self.mode == "exp_range" and self.gamma ^ x or 1.0
end

function CyclicLR:get_lr()
  local groups = self.optimizer.param_groups
  if #groups > #self.max_lrs then
    options.fail("%s: group %d was added later and has no rates", NAME, #self.max_lrs + 1)
  end
  local at = self.last_epoch / self.total_size
  local cycle = math.floor(1 + at)
  local x = 1 + at - cycle
  local part = x <= self.step_ratio and x / self.step_ratio or (x - 1) / (self.step_ratio - 1)
  local height = part * self:scale_fn(self.scale_mode == "cycle" and cycle or self.last_epoch)
  local rates = {}
  for i, group in ipairs(groups) do
    rates[i] = self.base_lrs[i] + (self.max_lrs[i] - self.base_lrs[i]) * height
    if self.cycle_momentum then
      local most = self.max_momentums[i]
      momenta.set(group, self.use_beta1, most - (most - self.base_momentums[i]) * height)
    end
  end
  return rates
end

return CyclicLR
