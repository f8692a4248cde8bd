-- stdlib/train/early_stopping.lua: EarlyStopping: tells when training no longer helps.

local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.nn.module"
require "moonlet.optim.plateau"  -- the types Metric and Mode
local fail = options.fail

--- Watches a value, such as the loss on a validation set, and tells when it has not become better
--- for `patience` steps in a row. Options: `patience` (5), `min_delta` (0): by how much a better
--- value must be better; `mode`: "min" or "max", what is better; `monitor`: which value of a row of
--- the history `train.fit` gives to it (default: "valid_loss", or "loss" without validation);
--- `restore_best` (true): keep the weights of the best step, for `restore`.
--- > stopper = ml.train.EarlyStopping { patience = 2 }
--- > for _, loss in ipairs { 3, 2, 2.5, 2.2 } do print(stopper:step(loss)) end
---@field best number? The best value so far.
---@field bad_steps integer How many steps in a row were no better.
local EarlyStopping = class.strict(class("EarlyStopping"), { "best", "monitor", "weights" })


local reader = signature("train.EarlyStopping(int>=0 patience=5, number>=0 min_delta=0, "
  .. 'Mode mode="min", string? monitor=nil, bool restore_best=true)')

function EarlyStopping:init(...)
  for name, value in pairs(reader:table(...)) do self[name] = value end
  self.bad_steps = 0
end

--- Whether `value` is better than `best`, by more than `min_delta`; NaN never is.
---@param self table has `mode`
---@param value number
---@param best number?
---@param min_delta number
---@return boolean
local function is_better(self, value, best, min_delta)
  if value ~= value then return false end
  if not best then return true end
  if self.mode == "min" then return value < best - min_delta end
  return value > best + min_delta
end

local function copy_of(model)
  local out = {}
  for name, tensor in pairs(model:state_dict()) do out[name] = tensor:detach():clone() end
  return out
end

local read_step = signature("EarlyStopping:step(Metric value, Module? model=nil)",
  "EarlyStopping: step")

--- Takes the value of one more step, and copies the weights of `model` when it is the best so far.
--- Returns whether to stop.
---@param value number|moonlet.Tensor
---@param model? moonlet.nn.Module
---@return boolean
function EarlyStopping:step(...)
  local value, model = read_step(...)
  if is_better(self, value, self.best, self.min_delta) then
    self.best, self.bad_steps = value, 0
    if model and self.restore_best then self.weights = copy_of(model) end
  else
    self.bad_steps = self.bad_steps + 1
  end
  return self.bad_steps > 0 and self.bad_steps >= self.patience
end

local read_restore = signature("EarlyStopping:restore(Module model)", "EarlyStopping: restore")

--- Gives a model the weights of the best step.
---@param model moonlet.nn.Module
function EarlyStopping:restore(...)
  local model = read_restore(...)
  if not self.weights then
    fail "EarlyStopping: restore: no weights were kept; give step() the model"
  end
  model:load_state_dict(self.weights)
end

--- What it takes to go on in another run.
---@return table
function EarlyStopping:state_dict()
  return { best = self.best, bad_steps = self.bad_steps, weights = self.weights }
end

local read_load = signature("EarlyStopping:load_state_dict(dict state_dict)", "load_state_dict")

--- Takes over what `state_dict` gave.
---@param state_dict table
function EarlyStopping:load_state_dict(...)
  local state = read_load(...)
  local best, weights = state.best, state.weights
  if math.type(state.bad_steps) ~= "integer" or best ~= nil and type(best) ~= "number"
      or weights ~= nil and type(weights) ~= "table" then
    fail "load_state_dict: this is no state of an EarlyStopping"
  end
  self.best, self.bad_steps, self.weights = best, state.bad_steps, weights
end

return { EarlyStopping = EarlyStopping, is_better = is_better }
