-- stdlib/optim/one_cycle.lua: OneCycleLR, rates that go up once and down again.

local momenta = require "moonlet.optim.momenta"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

local NAME = "OneCycleLR"

signature.add_choice("Anneal", { "cos", "linear" })

--- One-cycle policy: up to the greatest rate once, then down, with a step after each batch. The
--- rates rise from max_lr / div_factor to max_lr and fall to max_lr / (div_factor
--- final_div_factor). With `cycle_momentum` the momentum, or the first of the betas, moves the
--- other way. a and b are the rates at the ends of a phase, of which the part p is over.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1, momentum = 0.9 })
--- > scheduler = ml.optim.lr_scheduler.OneCycleLR(opt, 1, { total_steps = 5 })
--- > rates = {}
--- > for i = 1, 5 do rates[i] = opt.param_groups[1].lr opt:step() scheduler:step() end
--- > rates
---   {0.04, 0.95048463201347, 0.61126202193629, 0.18825834605024, 4e-06}
---@param optimizer the optimiser whose rates are set
---@param max_lr the greatest rate: a number, or one for each group
---@param total_steps how many steps there are; more are an error
---@param epochs with `steps_per_epoch` in the stead of `total_steps`
---@param steps_per_epoch how many steps an epoch has
---@param pct_start the part of the steps in which the rate rises, from 0 to 1
---@param anneal_strategy "cos" "cos" or "linear"
---@param cycle_momentum whether the momentum moves too
---@param base_momentum its lower bound: a number, or one for each group
---@param max_momentum its upper bound: a number, or one for each group
---@param div_factor by which factor the first rate is below `max_lr`
---@param final_div_factor by which factor the last rate is below the first
---@param three_phase whether the rate falls as it rose, and then lower
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
---@formula "cos": lr = b + (a - b) (1 + cos(pi p)) / 2
---@formula "linear": lr = a + (b - a) p
---@error neither `total_steps` nor `epochs` with `steps_per_epoch`, or a step beyond the last
---@source Smith and Topin, 2018: Super-convergence
local OneCycleLR = schedule.define(NAME)

local read = signature("optim.lr_scheduler.OneCycleLR(Optimizer optimizer, "
  .. "number|number[] max_lr, int>=1? total_steps=nil, int>=1? epochs=nil, "
  .. "int>=1? steps_per_epoch=nil, number>=0<=1 pct_start=0.3, "
  .. 'Anneal anneal_strategy="cos", bool cycle_momentum=true, '
  .. "number|number[] base_momentum=0.85, number|number[] max_momentum=0.95, "
  .. "number>0 div_factor=25.0, number>0 final_div_factor=10000.0, bool three_phase=false, "
  .. "int>=-1 last_epoch=-1)")

local function phase(last, from, to, momentum_from, momentum_to)
  return { end_step = last, start_lr = from, end_lr = to, start_momentum = momentum_from,
    end_momentum = momentum_to }
end

local function phases_of(o, steps)
  local top = o.pct_start * steps - 1
  local first = phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
  if not o.three_phase then
    return { first, phase(steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum") }
  end
  return { first,
    phase(2 * o.pct_start * steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
    phase(steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum") }
end

local function init_momentum(self, o)
  self.cycle_momentum = o.cycle_momentum
  if not o.cycle_momentum then return end
  self.use_beta1 = momenta.in_betas(NAME, o.optimizer)
  local most = schedule.per_group(NAME, "max_momentum", o.optimizer, o.max_momentum)
  local least = schedule.per_group(NAME, "base_momentum", o.optimizer, o.base_momentum)
  if o.last_epoch == -1 then momenta.begin(o.optimizer, self.use_beta1, least, most) end
end

function OneCycleLR:init(...)
  local o = read:table(...)
  local steps = o.total_steps
  if not steps and not (o.epochs and o.steps_per_epoch) then
    options.fail("%s: wants 'total_steps', or 'epochs' and 'steps_per_epoch'", NAME)
  end
  self.total_steps = steps or o.epochs * o.steps_per_epoch
  self._schedule_phases = phases_of(o, self.total_steps)
  self._anneal_func_type = o.anneal_strategy
  local rates = schedule.per_group(NAME, "max_lr", o.optimizer, o.max_lr)
  init_momentum(self, o)
  if o.last_epoch == -1 then
    for i, group in ipairs(o.optimizer.param_groups) do
      group.initial_lr, group.max_lr = rates[i] / o.div_factor, rates[i]
      group.min_lr = group.initial_lr / o.final_div_factor
    end
  end
  schedule.LRScheduler.init(self, o.optimizer, o.last_epoch)
end

local function between(self, from, to, part)
  if self._anneal_func_type == "linear" then return (to - from) * part + from end
  return to + (from - to) / 2 * (math.cos(math.pi * part) + 1)
end

-- The phase of a step, and how much of it is over.
local function phase_at(phases, step)
  local from = 0.0
  for i, each in ipairs(phases) do
    if step <= each.end_step or i == #phases then
      if each.end_step == from then
        options.fail("%s: 'pct_start' leaves no steps for phase %d", NAME, i)
      end
      return each, (step - from) / (each.end_step - from)
    end
    from = each.end_step
  end
end

function OneCycleLR:get_lr()
  if self.last_epoch > self.total_steps then
    options.fail("%s: step %d is beyond the total of %d", NAME, self.last_epoch, self.total_steps)
  end
  local now, part = phase_at(self._schedule_phases, self.last_epoch)
  local rates = {}
  for i, group in ipairs(self.optimizer.param_groups) do
    if not group.max_lr then
      options.fail("%s: group %d was added later and has no 'max_lr'", NAME, i)
    end
    rates[i] = between(self, group[now.start_lr], group[now.end_lr], part)
    if self.cycle_momentum then
      momenta.set(group, self.use_beta1,
        between(self, group[now.start_momentum], group[now.end_momentum], part))
    end
  end
  return rates
end

return OneCycleLR
