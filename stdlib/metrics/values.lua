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

--- The mean of all numbers that come, as of the losses of batches: `mean:update(loss, #batch)`.
--- > metric = ml.metrics.Mean()
--- > metric:update(1.5, 2):update(3):compute()
local Mean = metric.define("Mean", "")
values.Mean = Mean

function Mean:clear()
  self.total, self.weight = 0.0, 0.0
end

local read_mean_update = signature("Mean:update(Tensor|number value, number>=0 weight=1)",
  "Mean: update")

--- Adds a number, or all elements of a tensor, each with a weight.
---@param value number|moonlet.Tensor
---@param weight? number (default 1)
---@return moonlet.metrics.Metric self
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

--- The mean; NaN if nothing came.
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

--- The mean of squared differences. Options: `multioutput`: "uniform_average", the mean over the
--- outputs of shape (n, outputs), or "raw_values", a tensor of them; `squared` (true), false for
--- the root of each output's.
local MeanSquaredError = metric.define("MeanSquaredError", SQUARED)
values.MeanSquaredError = MeanSquaredError

function MeanSquaredError:clear()
  self.count, self.sum, self.outputs = 0, ml.zeros { 1, dtype = ml.float64 }, nil
end

local read_squared_update = signature("MeanSquaredError:update(Tensor input, Tensor target)",
  "MeanSquaredError: update")

--- Adds a batch of predictions and true values, of shape (n) or (n, outputs).
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return moonlet.metrics.Metric self
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

--- The error of all that came: a number, NaN if nothing did, or a tensor of the outputs.
---@return number|moonlet.Tensor
function MeanSquaredError:compute()
  local errors = self.sum / self.count
  if not self.options.squared then errors = errors:sqrt() end
  return self.options.multioutput == "raw_values" and errors or errors:mean():item()
end

local R2_OPTIONS = 'WeightedOutput multioutput="uniform_average"'

--- The share of the targets' variance that predictions explain: 1 is perfect, 0 as good as their
--- mean. Option `multioutput`: "uniform_average", the mean over the outputs of shape (n, outputs),
--- "variance_weighted", that by their variances, or "raw_values", a tensor. Of targets that are all
--- the same the share is 1 where predictions are perfect and else 0.
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

--- Adds a batch of predictions and true values, of shape (n) or (n, outputs).
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return moonlet.metrics.Metric self
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

--- The share for all that came: a number, NaN for fewer than two examples, or a tensor of the
--- outputs.
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


--- How many words a language model hesitates between: e to the mean cross entropy. Option
--- `ignore_index`: targets that do not count, as those of padding.
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

--- Adds a batch: scores (logits) of shape (..., words) and the true words, counted from 1, of shape
--- (...).
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return moonlet.metrics.Metric self
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

--- The perplexity of all that came; NaN if nothing did.
---@return number
function Perplexity:compute() return math.exp(self.total / self.count) end

local read = {}
for name, parameters in pairs { mean_squared_error = SQUARED, r2_score = R2_OPTIONS,
  perplexity = "int? ignore_index=nil" } do
  read[name] = signature(("metrics.%s(Tensor input, Tensor target, %s)"):format(name, parameters))
end

--- The mean squared error of one batch; arguments as for `metrics.MeanSquaredError`.
--- > ml.metrics.mean_squared_error(ml.tensor{1, 2}, ml.tensor{1, 4})
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return number|moonlet.Tensor
function values.mean_squared_error(...)
  return once(MeanSquaredError, read.mean_squared_error:table(...))
end

--- The R2 of one batch; arguments as for `metrics.R2`.
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return number|moonlet.Tensor
function values.r2_score(...) return once(R2, read.r2_score:table(...)) end

--- The perplexity of one batch; arguments as for `metrics.Perplexity`.
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return number
function values.perplexity(...) return once(Perplexity, read.perplexity:table(...)) end

return values
