-- stdlib/metrics/values.lua: metrics of numbers: running means, squared errors, R2, perplexity.

local metric = require "moonlet.metrics.metric"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail
local once = metric.once

local values = {}

signature.add_choice("Multioutput", { "uniform_average", "raw_values" })
signature.add_choice("WeightedOutput", { "uniform_average", "raw_values", "variance_weighted" })

--- Weighted arithmetic mean of all numbers given, such as the losses of batches weighted by their
--- sizes: `mean:update(loss, #batch)`.
--- > metric = ml.metrics.Mean()
--- > metric:update(1.5, 2):update(3):compute()
---   2.0
---@shape value (*), weight () -> number
---@formula mean = sum_i w_i x_i / sum_i w_i
local Mean = metric.define("Mean", "")
values.Mean = Mean

function Mean:clear()
  self.total, self.weight = 0.0, 0.0
end

local read_mean_update = signature("Mean:update(Tensor|number value, number>=0 weight=1)",
  "Mean: update")

--- Adds a number, or every element of a tensor, with a weight.
--- > ml.metrics.Mean():update(ml.tensor{1, 2, 6}):compute()
---   3.0
---@param value number|moonlet.Tensor a number, or a real tensor of any shape
---@param weight? number the weight of the number, or of each element; at least 0
---@return moonlet.metrics.Metric self
---@shape value (*) -> metric
function Mean:update(...)
  local value, weight = read_mean_update(...)
  local count = 1
  if ml.is_tensor(value) then
    if value:is_complex() then fail "Mean: update: 'value' must not be complex" end
    count = value:numel()
    value = value:detach():sum { dtype = ml.float64 }:item()
  end
  self.total, self.weight = self.total + value * weight, self.weight + count * weight
  return self
end

function Mean:merge(other)
  self.total, self.weight = self.total + other.total, self.weight + other.weight
end

--- The weighted mean of all values added; NaN if there are none.
--- > ml.metrics.Mean():update(2):update(4):compute()
---   3.0
---@return number
function Mean:compute() return self.total / self.weight end

-- Predictions and targets as matrices (n, outputs) in float64, and whether there is one output.
local function matrices(where, input, target)
  if input.shape ~= target.shape or input.ndim < 1 or input.ndim > 2 then
    fail("%s: 'input' and 'target' must have the same shape (n) or (n, outputs), got %s and %s",
      where, tostring(input.shape), tostring(target.shape))
  elseif input:is_complex() or target:is_complex() then
    fail("%s: 'input' and 'target' must not be complex", where)
  end
  local count = #input
  local outputs = input.ndim == 1 and 1 or input:size(2)
  local function matrix(x) return metric.flat(x, ml.float64):reshape(count, outputs) end
  return matrix(input), matrix(target), outputs
end

local function check_outputs(where, self, outputs)
  if self.outputs and self.outputs ~= outputs then
    fail("%s: %d outputs follow %d", where, outputs, self.outputs)
  end
  self.outputs = outputs
end

local SQUARED = 'Multioutput multioutput="uniform_average", bool squared=true'

--- Mean squared error (MSE) between predictions and true values, over all batches, computed in
--- float64. With `squared = false` the root mean squared error (RMSE) of each output.
--- > metric = ml.metrics.MeanSquaredError()
--- > metric:update(ml.tensor{1, 2}, ml.tensor{1, 4}):compute()
---   2.0
---@param multioutput? string "uniform_average" (mean over outputs) or "raw_values" (a tensor)
---@param squared? boolean whether the square root is left out
---@shape input (n) or (n, outputs), target the same -> number, or (outputs) for "raw_values"
---@formula MSE = 1/n sum_i (y_i - x_i)^2
local MeanSquaredError = metric.define("MeanSquaredError", SQUARED)
values.MeanSquaredError = MeanSquaredError

function MeanSquaredError:clear()
  self.count, self.sum, self.outputs = 0, ml.zeros { 1, dtype = ml.float64 }, nil
end

local read_squared_update = signature("MeanSquaredError:update(Tensor input, Tensor target)",
  "MeanSquaredError: update")

--- Adds a batch of predictions and true values.
--- > ml.metrics.MeanSquaredError():update(ml.tensor{1, 2}, ml.tensor{1, 4}):compute()
---   2.0
---@param input moonlet.Tensor predictions, a real tensor
---@param target moonlet.Tensor true values in the shape of `input`
---@return moonlet.metrics.Metric self
---@shape input (n) or (n, outputs), target the same
function MeanSquaredError:update(...)
  local where = "MeanSquaredError: update"
  local input, target, outputs = matrices(where, read_squared_update(...))
  check_outputs(where, self, outputs)
  self.count = self.count + #input
  self.sum = self.sum + (input - target):square():sum(1)
  return self
end

function MeanSquaredError:merge(other)
  if other.count == 0 then return end
  check_outputs("merge_state", self, other.outputs)
  self.count, self.sum = self.count + other.count, self.sum + other.sum
end

--- The mean squared error over all batches: a number, NaN if there were none, or with `multioutput
--- = "raw_values"` a tensor of shape (outputs).
--- > metric = ml.metrics.MeanSquaredError{squared = false}
--- > metric:update(ml.tensor{1, 2}, ml.tensor{1, 4}):compute()
---   1.4142135623731
---@return number|moonlet.Tensor
function MeanSquaredError:compute()
  local errors = self.sum / self.count
  if not self.options.squared then errors = errors:sqrt() end
  return self.options.multioutput == "raw_values" and errors or errors:mean():item()
end

local R2_OPTIONS = 'WeightedOutput multioutput="uniform_average"'

--- Coefficient of determination R^2: the share of the targets' variance that predictions explain. 1
--- is a perfect prediction, 0 is as good as predicting the mean of the targets, and it may be
--- negative. For constant targets it is 1 if predictions are exact and 0 otherwise.
--- > metric = ml.metrics.R2()
--- > metric:update(ml.tensor{2.5, 0, 2, 8}, ml.tensor{3, -0.5, 2, 7}):compute()
---   0.94860813704497
---@param multioutput? string "uniform_average", "variance_weighted" or "raw_values"
---@shape input (n) or (n, outputs), target the same -> number, or (outputs) for "raw_values"
---@formula R2 = 1 - sum_i (y_i - x_i)^2 / sum_i (y_i - mean(y))^2
local R2 = metric.define("R2", R2_OPTIONS)
values.R2 = R2

function R2:clear()
  local zeros = ml.zeros { 1, dtype = ml.float64 }
  self.count, self.mean, self.spread, self.residual, self.outputs = 0, zeros, zeros, zeros, nil
end

-- Joins counts, means and sums of squares around them (Chan, Golub and LeVeque, 1979).
local function join(self, count, mean, spread, residual)
  local all = self.count + count
  if all == 0 then return end
  local gap = mean - self.mean
  self.spread = self.spread + spread + gap:square() * (self.count * count / all)
  self.mean = self.mean + gap * (count / all)
  self.count, self.residual = all, self.residual + residual
end

local read_r2_update = signature("R2:update(Tensor input, Tensor target)", "R2: update")

--- Adds a batch of predictions and true values.
--- > ml.metrics.R2():update(ml.tensor{1, 2, 3}, ml.tensor{1, 2, 4}):compute()
---   0.78571428571429
---@param input moonlet.Tensor predictions, a real tensor
---@param target moonlet.Tensor true values in the shape of `input`
---@return moonlet.metrics.Metric self
---@shape input (n) or (n, outputs), target the same
function R2:update(...)
  local input, target, outputs = matrices("R2: update", read_r2_update(...))
  check_outputs("R2: update", self, outputs)
  if #input == 0 then return self end
  local mean = target:mean(1)
  join(self, #input, mean, (target - mean):square():sum(1), (target - input):square():sum(1))
  return self
end

function R2:merge(other)
  if other.count == 0 then return end
  check_outputs("merge_state", self, other.outputs)
  join(self, other.count, other.mean, other.spread, other.residual)
end

--- R^2 over all batches: a number, NaN for fewer than two examples, or with `multioutput =
--- "raw_values"` a tensor of shape (outputs).
--- > ml.metrics.R2():update(ml.tensor{1, 2, 3}, ml.tensor{1, 2, 3}):compute()
---   1.0
---@return number|moonlet.Tensor
function R2:compute()
  local how = self.options.multioutput
  if self.count < 2 then
    return how == "raw_values" and ml.full({ self.outputs or 1 }, 0 / 0, { dtype = ml.float64 })
      or 0 / 0
  end
  local residual, spread, shares = self.residual:totable(), self.spread:totable(), {}
  local total = 0
  for i, r in ipairs(residual) do
    total = total + spread[i]
    shares[i] = spread[i] ~= 0 and 1 - r / spread[i] or r == 0 and 1.0 or 0.0
  end
  if how == "raw_values" then return ml.tensor(shares, { dtype = ml.float64 }) end
  local equal = how == "uniform_average" or total == 0
  for i in ipairs(spread) do spread[i] = equal and 1 or spread[i] end
  return metric.weighted_mean(shares, spread)
end


--- Perplexity of a language model: the exponential of the mean cross entropy of the true words, in
--- [1, inf). A model that predicts uniformly over k words has perplexity k.
--- > metric = ml.metrics.Perplexity()
--- > metric:update(ml.zeros(2, 5), ml.tensor{1, 3}):compute()
---   5.0000001503539
---@param ignore_index? integer a target value that does not count, such as that of padding
---@shape input (..., words), target (...) -> number
---@formula perplexity = exp(-1/n sum_i log p(target_i))
local Perplexity = metric.define("Perplexity", "int? ignore_index=nil")
values.Perplexity = Perplexity

function Perplexity:clear()
  self.total, self.count = 0.0, 0
end

local read_perplexity_update = signature("Perplexity:update(Tensor input, Tensor target)",
  "Perplexity: update")

local function check_words(where, input, target)
  local rest = input.shape:totable()
  local count = table.remove(rest)
  local same = #rest == target.ndim and #rest > 0 and count > 0
  for i, size in ipairs(rest) do same = same and size == target:size(i) end
  if not same or not input:is_floating_point() then
    fail("%s: 'input' must be floating scores of shape (..., words) for 'target' of shape (...), "
      .. "got %s %s and %s", where, input.dtype, tostring(input.shape), tostring(target.shape))
  end
  return count
end

--- Adds a batch of scores and true words.
--- > ml.metrics.Perplexity():update(ml.zeros(2, 5), ml.tensor{1, 3}):compute()
---   5.0000001503539
---@param input moonlet.Tensor unnormalised scores (logits) of each word, a floating tensor
---@param target moonlet.Tensor the true words, integers from 1
---@return moonlet.metrics.Metric self
---@shape input (..., words), target (...)
function Perplexity:update(...)
  local where = "Perplexity: update"
  local input, target = read_perplexity_update(...)
  local count = check_words(where, input, target)
  local ignored = self.options.ignore_index
  local scores, words = input:detach():reshape(-1, count), target:reshape(-1)
  if ignored then
    local kept = words:ne(ignored)
    scores, words = scores[kept:to(scores.device)], words[kept]
  end
  local truths = metric.true_classes(where, words, count)
  if #truths == 0 then return self end
  local wide = scores.dtype == ml.float64 and scores or scores:to(ml.float32)
  local chosen = wide:log_softmax(2):gather(2, truths:to(scores.device):unsqueeze(2))
  self.total = self.total - chosen:sum { dtype = ml.float64 }:item()
  self.count = self.count + #truths
  return self
end

function Perplexity:merge(other)
  self.total, self.count = self.total + other.total, self.count + other.count
end

--- The perplexity over all batches; NaN if there were no targets.
--- > ml.metrics.Perplexity():update(ml.zeros(1, 4), ml.tensor{2}):compute()
---   4.0000000152372
---@return number
function Perplexity:compute() return math.exp(self.total / self.count) end

local read = {}
for name, parameters in pairs { mean_squared_error = SQUARED, r2_score = R2_OPTIONS,
  perplexity = "int? ignore_index=nil" } do
  read[name] = signature(("metrics.%s(Tensor input, Tensor target, %s)"):format(name, parameters))
end

--- Mean squared error of one batch; see `metrics.MeanSquaredError`.
--- > ml.metrics.mean_squared_error(ml.tensor{1, 2}, ml.tensor{1, 4})
---   2.0
---@param input moonlet.Tensor predictions, a real tensor
---@param target moonlet.Tensor true values in the shape of `input`
---@param multioutput? string "uniform_average" (mean over outputs) or "raw_values" (a tensor)
---@param squared? boolean whether the square root is left out
---@return number|moonlet.Tensor
---@shape input (n) or (n, outputs), target the same -> number, or (outputs) for "raw_values"
---@formula MSE = 1/n sum_i (y_i - x_i)^2
function values.mean_squared_error(...)
  return once(MeanSquaredError, read.mean_squared_error:table(...))
end

--- Coefficient of determination R^2 of one batch; see `metrics.R2`.
--- > ml.metrics.r2_score(ml.tensor{2.5, 0, 2, 8}, ml.tensor{3, -0.5, 2, 7})
---   0.94860813704497
---@param input moonlet.Tensor predictions, a real tensor
---@param target moonlet.Tensor true values in the shape of `input`
---@param multioutput? string "uniform_average", "variance_weighted" or "raw_values"
---@return number|moonlet.Tensor
---@shape input (n) or (n, outputs), target the same -> number, or (outputs) for "raw_values"
---@formula R2 = 1 - sum_i (y_i - x_i)^2 / sum_i (y_i - mean(y))^2
function values.r2_score(...) return once(R2, read.r2_score:table(...)) end

--- Perplexity of one batch, in [1, inf); see `metrics.Perplexity`.
--- > ml.metrics.perplexity(ml.zeros(2, 5), ml.tensor{1, 3})
---   5.0000001503539
---@param input moonlet.Tensor unnormalised scores (logits) of each word, a floating tensor
---@param target moonlet.Tensor the true words, integers from 1
---@param ignore_index? integer a target value that does not count, such as that of padding
---@return number
---@shape input (..., words), target (...) -> number
---@formula perplexity = exp(-1/n sum_i log p(target_i))
function values.perplexity(...) return once(Perplexity, read.perplexity:table(...)) end

return values
