-- stdlib/train/early_stopping.lua: EarlyStopping: tells when training no longer helps.

local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.nn.module"
require "moonlet.optim.plateau"  -- the types Metric and Mode
local fail = options.fail

--- Stops training early: watches a value, such as the loss on a validation set, and tells when it
--- has not improved for `patience` steps in a row.
--- > stopper = ml.train.EarlyStopping { patience = 2 }
--- > for _, loss in ipairs { 3, 2, 2.5, 2.2 } do print(stopper:step(loss)) end
---   false
---   false
---   false
---   true
---@field best number? The best value so far.
---@field bad_steps integer Number of steps in a row without an improvement.
---@param patience? integer number of steps in a row without an improvement
---@param min_delta? number how much better a value must be to count as an improvement
---@param mode? string "min" or "max": what is better
---@param monitor? string value of the history's row that `train.fit` gives; "valid_loss", or
---   "loss" without validation, unless given
---@param restore_best? boolean whether the weights of the best step are kept, for `restore`
---@source Prechelt, "Early stopping - but when?", 1998
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
--- > stopper = ml.train.EarlyStopping { patience = 1 }
--- > stopper:step(2), stopper:step(3)
---   false	true
---@param value number|moonlet.Tensor a number, or a tensor of one element
---@param model? moonlet.nn.Module the module whose weights are kept
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

--- Loads the weights of the best step into a model.
--- > net, stopper = ml.nn.Linear(1, 1), ml.train.EarlyStopping()
--- > _ = stopper:step(2, net)
--- > stopper:restore(net)
---@param model moonlet.nn.Module the module
function EarlyStopping:restore(...)
  local model = read_restore(...)
  if not self.weights then
    fail "EarlyStopping: restore: no weights were kept; give step() the model"
  end
  model:load_state_dict(self.weights)
end

--- The state, to go on in another run.
--- > stopper = ml.train.EarlyStopping()
--- > _ = stopper:step(2)
--- > stopper:state_dict().best
---   2
---@return table
function EarlyStopping:state_dict()
  return { best = self.best, bad_steps = self.bad_steps, weights = self.weights }
end

local read_load = signature("EarlyStopping:load_state_dict(dict state_dict)", "load_state_dict")

--- Takes over a state that `state_dict` gave.
--- > stopper = ml.train.EarlyStopping()
--- > stopper:load_state_dict(ml.train.EarlyStopping():state_dict())
---@param state_dict table the state
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
