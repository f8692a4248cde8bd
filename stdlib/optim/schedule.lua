-- stdlib/optim/schedule.lua: the base of learning-rate schedules.

local class = require "moonlet.class"
local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.optim.optimizer"

local fail = options.fail

local schedule = {}

-- Fields of schedules that some have.
local NILS = { "base_lrs", "base_momentums", "max_momentums", "use_beta" }

--- Base class of schedules of the learning rate. A subclass has `get_lr()`, which gives the next
--- rates, an array with one for each group, from `self.last_epoch`, `self.base_lrs` (the first
--- ones) and the groups' rates, and calls `LRScheduler.init(self, optimizer, last_epoch)`. Call
--- `step` after the optimiser's.
--- > class = require "moonlet.class"
--- > Halving = class("Halving", ml.optim.lr_scheduler.LRScheduler)
--- > function Halving:get_lr() return { self.base_lrs[1] / 2 ^ self.last_epoch } end
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = Halving(opt)
--- > opt:step() scheduler:step()
--- > opt.param_groups[1].lr
---   0.5
---@param optimizer the optimiser whose rates are set
---@param last_epoch the epoch to go on from, with groups of a saved state; -1 starts anew
local LRScheduler = class.strict(class("LRScheduler"), NILS)
schedule.LRScheduler = LRScheduler

--- A rate that later changes in place do not reach.
---@param rate number|Tensor
---@return number|Tensor
function schedule.copy_of(rate) return ml.is_tensor(rate) and rate:detach():clone() or rate end

--- Notes what every group had at first. A group that was added since gets what it has now.
---@param self table
function schedule.note_bases(self)
  for i, group in ipairs(self.optimizer.param_groups) do
    if not self.base_lrs[i] then
      group.initial_lr = group.initial_lr or schedule.copy_of(group.lr)
      self.base_lrs[i] = numbers.value(group.initial_lr)
    end
  end
end

--- The rates of the groups as they are now; tensors are copies.
---@param optimizer table
---@return table
function schedule.rates_of(optimizer)
  local out = {}
  for i, group in ipairs(optimizer.param_groups) do out[i] = schedule.copy_of(group.lr) end
  return out
end

--- Sets the rate of a group: a tensor stays the one it is, with the new number in it.
---@param group table
---@param value number|Tensor
function schedule.set_rate(group, value)
  if ml.is_tensor(group.lr) then
    group.lr:fill_(numbers.value(value))
  else
    group.lr = numbers.value(value)
  end
end

--- Sets the rates for the present epoch.
---@param self table
---@param rates number[]
function schedule.apply(self, rates)
  local groups = self.optimizer.param_groups
  if type(rates) ~= "table" or #rates ~= #groups then
    fail("%s: get_lr must give an array of %d rates, one for each group",
      class.name(class.of(self)), #groups)
  end
  for i, group in ipairs(groups) do schedule.set_rate(group, rates[i]) end
  self._last_lr = schedule.rates_of(self.optimizer)
end

--- Goes on by one epoch, or to the epoch given, without counting it as a step.
---@param self table
---@param epoch? integer
function schedule.advance(self, epoch)
  schedule.note_bases(self)
  self.last_epoch = epoch or self.last_epoch + 1
  schedule.apply(self, epoch and self.get_closed_form_lr and self:get_closed_form_lr()
    or self:get_lr())
end

--- The first step, which sets the rates of the epoch to begin with.
---@param self table
function schedule.begin(self)
  self._step_count, self._is_initial = 0, true
  self:step()
  self._is_initial = false
end

local read_init = signature(
  "optim.lr_scheduler.LRScheduler(Optimizer optimizer, int>=-1 last_epoch=-1)")

--- `last_epoch` is the epoch to go on from, when the groups come from a saved state.
---@param optimizer table
---@param last_epoch? integer (default -1: from the start)
function LRScheduler:init(...)
  local optimizer, last_epoch = read_init(...)
  for i, group in ipairs(optimizer.param_groups) do
    if last_epoch >= 0 and not group.initial_lr then
      fail("%s: group %d has no 'initial_lr'; load the optimiser's state before going on from "
        .. "epoch %d", class.name(class.of(self)), i, last_epoch)
    end
  end
  self.optimizer, self.base_lrs, self.last_epoch = optimizer, {}, last_epoch
  self._get_lr_called_within_step = false
  schedule.begin(self)
end

--- The next rates of the groups; every schedule defines it. `step` calls it; scripts read
--- `get_last_lr`.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > opt:step() scheduler:step()
--- > scheduler:get_lr()
---   {0.25}
---@return number[] rates
function LRScheduler:get_lr()
  fail("%s: has no method get_lr", class.name(class.of(self)))
end

local read_step = signature "LRScheduler:step(int>=0? epoch=nil)"

--- Goes on by one epoch, or to a given one.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > opt:step() scheduler:step()
--- > opt.param_groups[1].lr
---   0.5
---@param epoch? integer the epoch to go to, from 0, whose rates follow from the first ones: the
---   next unless given
function LRScheduler:step(...)
  local epoch = read_step(...)
  self._step_count = self._step_count + 1
  schedule.advance(self, epoch)
end

local read_last = signature "LRScheduler:get_last_lr()"

--- The rates of the groups that the last step gave.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > scheduler:get_last_lr()
---   {1}
---@return (number|Tensor)[] rates numbers, and copies where a group's rate is a tensor
function LRScheduler:get_last_lr(...)
  read_last(...)
  local out = {}
  for i, rate in ipairs(self._last_lr) do out[i] = schedule.copy_of(rate) end
  return out
end

-- Values that can be saved, copied.
local function saved(value)
  if ml.is_tensor(value) then return schedule.copy_of(value) end
  if type(value) == "table" and getmetatable(value) == nil then
    local out = {}
    for key, item in pairs(value) do out[key] = saved(item) end
    return notes.like(out, value)
  end
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" then return value end
  return nil
end

--- Names that PyTorch has in the state of a schedule, and which are None in it.
LRScheduler.unset = {}

-- Fields that a schedule may lack.
local OPTIONAL = { default_min_lr = true }

local read_state = signature "LRScheduler:state_dict()"

-- Schedules that run others keep their states with their own.
local function states_of(schedulers)
  local out = {}
  for i, inner in ipairs(schedulers) do out[i] = inner:state_dict() end
  return out
end

--- State of the schedule, under PyTorch's names: all fields but the optimiser and functions.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > scheduler:state_dict().last_epoch
---   0
---@return table
function LRScheduler:state_dict(...)
  read_state(...)
  local out = {}
  for key, value in pairs(self) do
    if key == "_schedulers" then
      out[key] = states_of(value)
    elseif key ~= "optimizer" then
      out[key] = saved(value)
    end
  end
  for _, key in ipairs(self.unset) do notes.add_none(out, key) end
  return out
end

local read_load = signature "LRScheduler:load_state_dict(dict state_dict)"

--- Loads a state that `state_dict` gave. The rates themselves come back with the optimiser's state.
--- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(1)) }, { lr = 1 })
--- > scheduler = ml.optim.lr_scheduler.ExponentialLR(opt, 0.5)
--- > scheduler:load_state_dict { last_epoch = 3 }
--- > scheduler.last_epoch
---   3
---@param state_dict table the state
function LRScheduler:load_state_dict(...)
  local state = read_load(...)
  if self.last_epoch ~= nil and math.type(state.last_epoch) ~= "integer" then
    fail("load_state_dict: this is no state of a schedule: it has no 'last_epoch'")
  end
  local name, schedulers = class.name(class.of(self)), self._schedulers or {}
  for key, value in pairs(state) do
    local own = rawget(self, key)
    if own == nil and not OPTIONAL[key] then
      fail("load_state_dict: %s has no field '%s'", name, tostring(key))
    elseif own ~= nil and type(own) ~= type(value) then
      fail("load_state_dict: '%s' of %s must be a %s, got a %s", tostring(key), name, type(own),
        type(value))
    end
  end
  if self._schedulers and #(state._schedulers or {}) ~= #schedulers then
    fail("load_state_dict: this is no state of a %s of %d schedules", name, #schedulers)
  end
  for i, inner in ipairs(schedulers) do inner:load_state_dict(state._schedulers[i]) end
  for key, value in pairs(state) do
    if key ~= "_schedulers" then self[key] = saved(value) end
  end
end

signature.add_type("Schedule", "a schedule", function(value)
  return class.is_instance(value, LRScheduler) and value or nil
end)

--- Checks the schedules that another one runs.
---@param where string for messages
---@param optimizer table
---@param schedulers table[]
function schedule.check_inner(where, optimizer, schedulers)
  if #schedulers == 0 then fail("%s: got no schedules", where) end
  for i, inner in ipairs(schedulers) do
    if inner.optimizer ~= optimizer then
      fail("%s: schedule %d is for another optimiser", where, i)
    elseif not inner.base_lrs and not inner._schedulers then
      fail("%s: schedule %d is a %s, whose step wants a value", where, i,
        class.name(class.of(inner)))
    end
  end
end

--- An array of a number for each group, from one for each or one for all.
---@param where string for messages
---@param name string
---@param optimizer table
---@param value number|number[]
---@return number[]
function schedule.per_group(where, name, optimizer, value)
  local count = #optimizer.param_groups
  if type(value) == "table" then
    if #value == count then return value end
    fail("%s: '%s' has %d numbers, the optimiser %d groups", where, name, #value, count)
  end
  local out = {}
  for i = 1, count do out[i] = value end
  return out
end

--- A class of schedules whose constructor takes an optimiser, `parameters` in the notation of
--- moonlet.signature, which become its fields, and `last_epoch`.
---@param name string
---@param parameters? string nil for a class that reads its own
---@param prepare? fun(fields: table) changes the fields
---@return table
function schedule.define(name, parameters, prepare)
  local cls = class.strict(class(name, LRScheduler), NILS)
  if not parameters then return cls end
  local read = signature(("optim.lr_scheduler.%s(Optimizer optimizer, %s, int>=-1 last_epoch=-1)")
    :format(name, parameters))
  function cls:init(...)
    local o = read:table(...)
    if prepare then prepare(o) end
    for key, value in pairs(o) do
      if key ~= "optimizer" and key ~= "last_epoch" then self[key] = value end
    end
    LRScheduler.init(self, o.optimizer, o.last_epoch)
  end
  return cls
end

return schedule
