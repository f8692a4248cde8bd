-- stdlib/metrics/ranking.lua: metrics of how scores put examples in order: ROC and
-- precision-recall curves, the area under the first, and average precision.

local metric = require "moonlet.metrics.metric"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail
local once = metric.once

local ranking = {}

signature.add_choice("RankingAverage", { "macro", "weighted", "none" })
local OPTIONS = 'RankingAverage average="macro", int>=2? num_classes=nil'

-- For each score that occurs, from the highest: how many positives and negatives have it or more.
local function cumulative(scores, positive)
  local sorted, order = scores:sort { dim = 1, descending = true, stable = true }
  local _, sizes = sorted:unique_consecutive { return_counts = true }
  local ends = sizes:cumsum(1)
  local hits = positive:index_select(1, order):cumsum(1):index_select(1, ends)
  return sorted:index_select(1, ends), hits, ends:to(ml.float64) - hits
end

-- Positions of a curve's points without those inside of straight lines.
local function corners(a, b)
  if #a < 3 then return ml.arange(#a) end
  local bent = a:diff(2):ne(0):logical_or(b:diff(2):ne(0))
  local inner = bent:nonzero():reshape(-1) + 1
  return ml.cat { ml.tensor { 1 }, inner, ml.tensor { #a } }
end

local function zero() return ml.zeros { 1, dtype = ml.float64 } end

local function area(x, y)
  return (x:diff() * (y:narrow(1, 2, #y - 1) + y:narrow(1, 1, #y - 1)) / 2):sum():item()
end

local function area_under_roc(scores, positive)
  if #scores == 0 then return 0 / 0 end
  local _, hits, misses = cumulative(scores, positive)
  local total, others = hits[-1]:item(), misses[-1]:item()
  if total == 0 or others == 0 then return 0 / 0 end
  return area(ml.cat { zero(), misses } / others, ml.cat { zero(), hits } / total)
end

local function average_of(scores, positive)
  if #scores == 0 then return 0 / 0 end
  local _, hits, misses = cumulative(scores, positive)
  local total = hits[-1]:item()
  if total == 0 then return 0.0 end
  local steps = ml.cat { zero(), hits }:diff() / total
  return (steps * hits / (hits + misses)):sum():item()
end

local function check_scores(where, scores)
  if not scores:is_floating_point() then
    fail("%s: 'input' must have a floating dtype, got %s", where, scores.dtype)
  elseif scores:isnan():any():item() then
    fail("%s: 'input' has a NaN", where)
  end
end

-- The scores of two classes and whether each example is of the second, as vectors.
local function two_classes(where, input, target)
  check_scores(where, input)
  if metric.has_scores(where, input, target) then
    fail("%s: 'input' has shape %s, 'target' %s", where, tostring(input.shape),
      tostring(target.shape))
  end
  local positive = (metric.two_classes(where, target) - 1):to(ml.float64)
  return metric.flat(input, ml.float64), positive
end

-- Keeps scores, (n) or (n, classes), and classes from 1.
local function keep(where, self, scores, truths, count)
  if self.count and self.count ~= count then
    fail("%s: scores for %d classes follow such for %d", where, count, self.count)
  end
  self.count = count
  table.insert(self.scores, scores)
  table.insert(self.truths, truths)
end

local function add_scores(where, self, input, target)
  check_scores(where, input)
  if not metric.has_scores(where, input, target) then
    if self.options.num_classes then
      fail("%s: 'input' must have a score for each class, as there is 'num_classes'", where)
    end
    return keep(where, self, metric.flat(input, ml.float64), metric.two_classes(where, target), 1)
  elseif input.ndim ~= 2 then
    fail("%s: 'input' must have shape (n) or (n, classes), got %s", where, tostring(input.shape))
  end
  local count = metric.count_of(where, input, self.options.num_classes)
  local truths = metric.true_classes(where, target, count)
  if count == 1 then fail("%s: 'input' has one class; scores of two have shape (n)", where) end
  keep(where, self, input:detach():to { device = "cpu", dtype = ml.float64 }, truths, count)
end

-- The values of all classes, averaged.
local function average(self, value)
  local scores, truths = ml.cat(self.scores), ml.cat(self.truths)
  if self.count == 1 then return value(scores, (truths - 1):to(ml.float64)) end
  local values, weights = {}, {}
  for c = 1, self.count do
    local positive = truths:eq(c):to(ml.float64)
    values[c], weights[c] = value(scores:select(2, c), positive), positive:sum():item()
  end
  if self.options.average == "none" then return ml.tensor(values, { dtype = ml.float64 }) end
  if self.options.average == "weighted" then return metric.weighted_mean(values, weights) end
  for c in ipairs(values) do weights[c] = 1 end
  return metric.weighted_mean(values, weights)
end

-- A class of metrics that keep all scores; `value` gives that of one class.
local function define(name, value)
  local cls = metric.define(name, OPTIONS)
  local where = name .. ": update"
  local read_update = signature(name .. ":update(Tensor input, Tensor target)", where)

  function cls:clear()
    self.scores, self.truths, self.count = {}, {}, nil
  end

  --- Adds a batch. `input` holds scores: of shape (n, classes) with classes from 1 as `target` of
  --- shape (n), each class against all others; or, for two classes, those of class 2 in the shape
  --- of `target`, which holds classes 1 and 2, truth values, or 0 and 1 in a floating dtype. Fails
  --- on NaN.
  --- > ml.metrics.AUROC():update(ml.tensor{0.1, 0.8}, ml.tensor{1, 2}):compute()
  ---   1.0
  ---@param input moonlet.Tensor scores, a floating tensor
  ---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
  ---@return moonlet.metrics.Metric self
  ---@shape input (n) or (n, classes), target (n)
  function cls:update(...)
    add_scores(where, self, read_update(...))
    return self
  end

  function cls:merge(other)
    for i, scores in ipairs(other.scores) do
      keep("merge_state", self, scores, other.truths[i], other.count)
    end
  end

  --- The value over all batches: a number, NaN if there were none, or with `average = "none"` a
  --- tensor of shape (classes).
  --- > ml.metrics.AUROC():update(ml.tensor{0.1, 0.8}, ml.tensor{1, 2}):compute()
  ---   1.0
  ---@return number|moonlet.Tensor
  function cls:compute()
    return self.count and average(self, value) or 0 / 0
  end

  return cls
end

--- Area under the receiver operating characteristic (ROC) curve, in [0, 1]: the probability that an
--- example of the class has a higher score than one of another class, with half of it for equal
--- scores. For more than two classes each is compared with all others. NaN if all examples are of
--- the class or none is. All scores are kept until `reset`.
--- > metric = ml.metrics.AUROC()
--- > metric:update(ml.tensor{0.1, 0.4, 0.35}, ml.tensor{1, 1, 2}):compute()
---   0.5
---@param average? string "macro" (mean over classes), "weighted" (by support) or "none" (each
---   class)
---@param num_classes? integer the number of classes, checked against `input`
---@shape input (n) or (n, classes), target (n) -> number, or (classes) for "none"
---@formula AUROC = P(x_positive > x_negative) + 1/2 P(x_positive = x_negative)
ranking.AUROC = define("AUROC", area_under_roc)

--- Average precision: the mean of the precisions at each threshold, weighted by the increase of
--- recall; the area under the precision-recall curve without interpolation, in [0, 1]. 0 if no
--- example is of the class. Options as for `metrics.AUROC`. All scores are kept until `reset`.
--- > metric = ml.metrics.AveragePrecision()
--- > metric:update(ml.tensor{0.1, 0.4, 0.35, 0.8}, ml.tensor{1, 1, 2, 2}):compute()
---   0.83333333333333
---@param average? string "macro" (mean over classes), "weighted" (by support) or "none" (each
---   class)
---@param num_classes? integer the number of classes, checked against `input`
---@shape input (n) or (n, classes), target (n) -> number, or (classes) for "none"
---@formula AP = sum_k (recall_k - recall_(k-1)) precision_k
ranking.AveragePrecision = define("AveragePrecision", average_of)

local read_auroc = signature(
  ("metrics.auroc(Tensor input, Tensor target, %s)"):format(OPTIONS))
local read_average = signature(
  ("metrics.average_precision(Tensor input, Tensor target, %s)"):format(OPTIONS))

--- Area under the ROC curve of one batch, in [0, 1]; see `metrics.AUROC`.
--- > ml.metrics.auroc(ml.tensor{0.1, 0.4, 0.35}, ml.tensor{1, 1, 2})
---   0.5
---@param input moonlet.Tensor scores, a floating tensor; for two classes those of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "macro" (mean over classes), "weighted" (by support) or "none" (each
---   class)
---@param num_classes? integer the number of classes, checked against `input`
---@return number|moonlet.Tensor
---@shape input (n) or (n, classes), target (n) -> number, or (classes) for "none"
---@formula AUROC = P(x_positive > x_negative) + 1/2 P(x_positive = x_negative)
function ranking.auroc(...) return once(ranking.AUROC, read_auroc:table(...)) end

--- Average precision of one batch, in [0, 1]; see `metrics.AveragePrecision`.
--- > ml.metrics.average_precision(ml.tensor{0.1, 0.4, 0.35, 0.8}, ml.tensor{1, 1, 2, 2})
---   0.83333333333333
---@param input moonlet.Tensor scores, a floating tensor; for two classes those of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "macro" (mean over classes), "weighted" (by support) or "none" (each
---   class)
---@param num_classes? integer the number of classes, checked against `input`
---@return number|moonlet.Tensor
---@shape input (n) or (n, classes), target (n) -> number, or (classes) for "none"
---@formula AP = sum_k (recall_k - recall_(k-1)) precision_k
function ranking.average_precision(...)
  return once(ranking.AveragePrecision, read_average:table(...))
end

local read_roc = signature(
  "metrics.roc_curve(Tensor input, Tensor target, bool drop_intermediate=true)")

--- Receiver operating characteristic (ROC) curve of scores for two classes. The results are false
--- positive rates, true positive rates, and the thresholds from which on a score counts as
--- positive, from the highest; the first threshold is infinite. A rate whose denominator is 0 is
--- NaN.
--- > fpr, tpr = ml.metrics.roc_curve(ml.tensor{0.1, 0.4, 0.35, 0.8}, ml.tensor{1, 1, 2, 2})
--- > fpr
---   {0.0000, 0.0000, 0.5000, 0.5000, 1.0000}
---   Tensor (5,) float64
---@param input moonlet.Tensor scores of class 2, a floating tensor without NaN
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param drop_intermediate? boolean whether points inside of straight segments are left out
---@return moonlet.Tensor fpr
---@return moonlet.Tensor tpr
---@return moonlet.Tensor thresholds
---@shape input (n), target (n) -> fpr (points), tpr (points), thresholds (points)
---@formula FPR = FP / (FP + TN), TPR = TP / (TP + FN)
function ranking.roc_curve(...)
  local input, target, drop = read_roc(...)
  local scores, positive = two_classes("roc_curve", input, target)
  if #scores == 0 then fail "roc_curve: 'input' is empty" end
  local thresholds, hits, misses = cumulative(scores, positive)
  if drop then
    local at = corners(hits, misses)
    thresholds, hits = thresholds:index_select(1, at), hits:index_select(1, at)
    misses = misses:index_select(1, at)
  end
  return ml.cat { zero(), misses } / misses[-1], ml.cat { zero(), hits } / hits[-1],
    ml.cat { zero() + math.huge, thresholds }
end

local read_curve = signature("metrics.precision_recall_curve(Tensor input, Tensor target)")

--- Precision-recall curve of scores for two classes. The results are precisions, recalls, and
--- thresholds from the lowest. The curves end with precision 1 and recall 0, which have no
--- threshold. Without positive examples the recall is 1.
--- > scores, truths = ml.tensor{0.1, 0.4, 0.35, 0.8}, ml.tensor{1, 1, 2, 2}
--- > precision, recall = ml.metrics.precision_recall_curve(scores, truths)
--- > recall
---   {1.0000, 1.0000, 0.5000, 0.5000, 0.0000}
---   Tensor (5,) float64
---@param input moonlet.Tensor scores of class 2, a floating tensor without NaN
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@return moonlet.Tensor precision
---@return moonlet.Tensor recall
---@return moonlet.Tensor thresholds
---@shape input (n), target (n) -> precision (points + 1), recall (points + 1), thresholds (points)
---@formula precision = TP / (TP + FP), recall = TP / (TP + FN)
function ranking.precision_recall_curve(...)
  local input, target = read_curve(...)
  local scores, positive = two_classes("precision_recall_curve", input, target)
  if #scores == 0 then fail "precision_recall_curve: 'input' is empty" end
  local thresholds, hits, misses = cumulative(scores, positive)
  local total = hits[-1]:item()
  local recall = total == 0 and hits + 1 or hits / total
  return ml.cat { (hits / (hits + misses)):flip(1), zero() + 1 },
    ml.cat { recall:flip(1), zero() }, thresholds:flip(1)
end

return ranking
