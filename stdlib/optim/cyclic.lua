-- stdlib/optim/cyclic.lua: CyclicLR, rates that go up and down.

local momenta = require "moonlet.optim.momenta"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

local NAME = "CyclicLR"

signature.add_choice("CycleMode", { "triangular", "triangular2", "exp_range" })
signature.add_choice("ScaleMode", { "cycle", "iterations" })

--- `CyclicLR(optimizer, base_lr, max_lr, { step_size_up = 2000 })`: up from `base_lr` to `max_lr`
--- in `step_size_up` steps and down in `step_size_down` (as many), again and again (Smith, 2017). A
--- step is that of a batch. `mode` "triangular" keeps the height of the cycles, "triangular2"
--- halves it each time, "exp_range" has it fall by `gamma` each step; or `scale_fn(x)` gives it,
--- where x is the cycle, from 1, or with `scale_mode = "iterations"` the step. With
--- `cycle_momentum` (true) the momentum goes from `max_momentum` (0.9) to `base_momentum` (0.8) as
--- the rate goes up.
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
---@param x number the cycle, from 1, or the step
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
