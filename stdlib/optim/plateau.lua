-- stdlib/optim/plateau.lua: ReduceLROnPlateau, the schedule that looks at a measured value.

local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local schedule = require "moonlet.optim.schedule"
local signature = require "moonlet.signature"

signature.add_choice("Mode", { "min", "max" })
signature.add_choice("ThresholdMode", { "rel", "abs" })
signature.add_type("Metric", "a number or a tensor of one element", function(value)
  if ml.is_tensor(value) and value:numel() == 1 then value = value:item() end
  return type(value) == "number" and value or nil
end)

--- Multiplies the rates by a factor when a metric stops improving. The rates change when `step` was
--- given no better value for more than `patience` epochs.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ReduceLROnPlateau(opt, { patience = 1 })
--- > for _, loss in ipairs { 0.5, 0.5, 0.5 } do scheduler:step(loss) end
--- > opt.param_groups[1].lr
---   0.1
---@param optimizer the optimiser whose rates are set
---@param mode "min" "min" if less is better, "max" if more is
---@param factor what the rates are multiplied by
---@param patience how many epochs without improvement are waited for
---@param threshold by how much a value must be better
---@param threshold_mode "rel" "rel" for a part of the best value, "abs" for a difference
---@param cooldown how many epochs after a change do not count
---@param min_lr the least rate: a number, or one for each group
---@param eps changes of a rate by less are not made
---@formula lr = max(lr factor, min_lr)
local ReduceLROnPlateau = class.strict(class("ReduceLROnPlateau", schedule.LRScheduler))

local read = signature("optim.lr_scheduler.ReduceLROnPlateau(Optimizer optimizer, "
  .. 'Mode mode="min", number>=0 factor=0.1, int>=0 patience=10, number threshold=0.0001, '
  .. 'ThresholdMode threshold_mode="rel", int>=0 cooldown=0, number|number[] min_lr=0, '
  .. "number eps=1e-8)")

function ReduceLROnPlateau:init(...)
  local o = read:table(...)
  if o.factor >= 1 then
    options.fail("ReduceLROnPlateau: 'factor' must be below 1, got %g", o.factor)
  end
  for key, value in pairs(o) do
    if key ~= "min_lr" then self[key] = value end
  end
  self.min_lrs = schedule.per_group("ReduceLROnPlateau", "min_lr", o.optimizer, o.min_lr)
  self.default_min_lr = type(o.min_lr) == "number" and o.min_lr or nil
  self.last_epoch, self.cooldown_counter, self.num_bad_epochs = 0, 0, 0
  self.mode_worse = o.mode == "min" and math.huge or -math.huge
  self.best = self.mode_worse
  self:note_rates()
end

--- Notes the rates of the groups for `get_last_lr`.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ReduceLROnPlateau(opt)
--- > opt.param_groups[1].lr = 0.5
--- > scheduler:note_rates()
--- > scheduler:get_last_lr()
---   {0.5}
function ReduceLROnPlateau:note_rates()
  self._last_lr = schedule.rates_of(self.optimizer)
end

local function is_better(self, value)
  local sign = self.mode == "min" and -1 or 1
  if self.threshold_mode == "abs" then
    return sign * value > sign * (self.best + sign * self.threshold)
  end
  return sign * value > sign * self.best * (1 + sign * self.threshold)
end

local function reduce(self)
  for i, group in ipairs(self.optimizer.param_groups) do
    local least = self.min_lrs[i] or self.default_min_lr
      or options.fail("ReduceLROnPlateau: group %d has no 'min_lr'", i)
    local before = numbers.value(group.lr)
    local rate = math.max(before * self.factor, least)
    if before - rate > self.eps then schedule.set_rate(group, rate) end
  end
end

local read_step = signature(
  "ReduceLROnPlateau:step(Metric metrics, int>=0? epoch=nil)")

--- Goes on by one epoch.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ReduceLROnPlateau(opt)
--- > scheduler:step(0.5)
--- > scheduler.best
---   0.5
---@param metrics number|Tensor the value of the epoch, such as the loss on a validation set
---@param epoch? integer the number of the epoch: the next one unless given
function ReduceLROnPlateau:step(...)
  local value, epoch = read_step(...)
  self.last_epoch = epoch or self.last_epoch + 1
  if is_better(self, value) then
    self.best, self.num_bad_epochs = value, 0
  else
    self.num_bad_epochs = self.num_bad_epochs + 1
  end
  if self.cooldown_counter > 0 then
    self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
  end
  if self.num_bad_epochs > self.patience then
    reduce(self)
    self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
  end
  self:note_rates()
end

return ReduceLROnPlateau
