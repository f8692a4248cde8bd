-- stdlib/metrics/classes.lua: metrics of guessed classes: accuracy, precision, recall, F1 and the
-- confusion matrix.

local class = require "moonlet.class"
local metric = require "moonlet.metrics.metric"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail
local once = metric.once

local classes = {}

signature.add_choice("AccuracyAverage", { "micro", "macro", "none" })
signature.add_choice("ClassAverage", { "micro", "macro", "weighted", "binary", "none" })
signature.add_choice("Normalize", { "none", "true", "pred", "all" })

local function bincount(values, count) return values:bincount { minlength = count } end

local function empty() return ml.zeros { 0, dtype = ml.int64 } end

local function add(counts, more)
  local size = math.max(#counts, #more)
  return metric.grown(counts, size) + metric.grown(more, size)
end

-- Adds up, for each class, how often it was right, guessed and true.
local function add_counts(self, right, guessed, actual)
  self.right, self.guessed = add(self.right, right), add(self.guessed, guessed)
  self.actual = add(self.actual, actual)
end

local function clear_counts(self)
  local size = self.options.num_classes
  local zeros = size and ml.zeros { size, dtype = ml.int64 } or empty()
  self.right, self.guessed, self.actual = zeros, zeros, zeros
end

local function merge_counts(self, other)
  local own, given = self.options.num_classes, other.options.num_classes
  if own and (given or #other.right) > own then
    fail("merge_state: the metrics have %d and %d classes", own, given or #other.right)
  end
  add_counts(self, other.right, other.guessed, other.actual)
end

local function count_classes(where, self, input, target)
  local guesses, truths, count = metric.classes(where, input, target, self.options)
  add_counts(self, bincount(truths[guesses:eq(truths)], count), bincount(guesses, count),
    bincount(truths, count))
end

-- Of each class how often it is among the k highest scores where it is true.
local function count_top(where, self, input, target)
  local k = self.options.top_k
  if not metric.has_scores(where, input, target) then
    fail("%s: 'top_k' above 1 wants a score for each class", where)
  end
  local count = metric.count_of(where, input, self.options.num_classes)
  if k > count then fail("%s: 'top_k' is %d for %d classes", where, k, count) end
  local truths = metric.true_classes(where, target, count)
  local _, best = input:detach():topk(k, 2)
  local hits = best:eq(target:unsqueeze(2):to(best.device)):any(2)
  local right = truths[hits:to("cpu"):reshape(-1)]
  add_counts(self, bincount(right, count), bincount(truths, 0), bincount(truths, count))
end

-- num[i] / den[i], with `otherwise` where den[i] is 0.
local function ratios(num, den, otherwise)
  local out = {}
  for i, n in ipairs(num) do out[i] = den[i] == 0 and otherwise or n / den[i] end
  return out
end

local function as_tensor(values) return ml.tensor(values, { dtype = ml.float64 }) end

local function per_class(values)
  return #values > 0 and as_tensor(values) or ml.zeros { 0, dtype = ml.float64 }
end

local ACCURACY = 'AccuracyAverage average="micro", int>=1? num_classes=nil, int>=1 top_k=1, '
  .. "number threshold=0.5"

--- Accuracy: the share of predictions that are correct, in [0, 1]. `average = "macro"` is the
--- balanced accuracy, the mean over the classes that occur in the targets of each class's share.
--- With "none" a class that does not occur has NaN.
--- > metric = ml.metrics.Accuracy()
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 3}):compute()
---   0.66666666666667
---@param average? string "micro" (share of all), "macro" (mean over classes) or "none" (each class)
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param top_k? integer correct if the class is among the `top_k` highest scores
---@param threshold? number probability from which on class 2 is predicted
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula accuracy = 1/n sum_i 1[prediction_i = target_i]
local Accuracy = metric.define("Accuracy", ACCURACY)
classes.Accuracy = Accuracy

function Accuracy:clear()
  clear_counts(self)
end

local read_accuracy_update = signature("Accuracy:update(Tensor input, Tensor target)",
  "Accuracy: update")

--- Adds a batch. `input` holds a score for each class, of shape (n, classes, ...), whose largest is
--- the prediction; or the predicted classes, counted from 1, in the shape of `target`; or, for two
--- classes, the probability of class 2, which is predicted from `threshold` on. `target` holds
--- classes from 1; for two classes also truth values, or 0 and 1 in a floating dtype.
--- > ml.metrics.Accuracy():update(ml.tensor{{0.1, 0.9}, {0.8, 0.2}}, ml.tensor{2, 2}):compute()
---   0.5
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@return moonlet.metrics.Metric self
---@shape input (n, classes, ...) or (n, ...), target (n, ...)
function Accuracy:update(...)
  local input, target = read_accuracy_update(...)
  local count = self.options.top_k > 1 and count_top or count_classes
  count("Accuracy: update", self, input, target)
  return self
end

function Accuracy:merge(other) merge_counts(self, other) end

--- The accuracy over all batches: a number, NaN if there were none, or with `average = "none"` a
--- tensor of shape (classes).
--- > metric = ml.metrics.Accuracy("none")
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   {0.5000, 1.0000}
---   Tensor (2,) float64
---@return number|moonlet.Tensor
function Accuracy:compute()
  if self.options.average == "micro" then
    local total = self.actual:sum():item()
    return total == 0 and 0 / 0 or self.right:sum():item() / total
  end
  local actual = self.actual:totable()
  local shares = ratios(self.right:totable(), actual, 0 / 0)
  if self.options.average == "none" then return per_class(shares) end
  local occurs = {}
  for i, n in ipairs(actual) do occurs[i] = n > 0 and 1 or 0 end
  return metric.weighted_mean(shares, occurs)
end

local AVERAGED = 'ClassAverage average="macro", int>=1? num_classes=nil, number>=0<=1 '
  .. "zero_division=0, number threshold=0.5"

-- Averages of a metric that is the ratio of two counts for each class.
local function averaged(self, ratio)
  local o = self.options
  local function values(right, guessed, actual)
    local num, den = ratio(right, guessed, actual)
    return ratios(num:reshape(-1):totable(), den:reshape(-1):totable(), o.zero_division)
  end
  if o.average == "micro" then
    return values(self.right:sum(), self.guessed:sum(), self.actual:sum())[1]
  end
  local all = values(self.right, self.guessed, self.actual)
  if o.average == "none" then return per_class(all) end
  if o.average == "binary" then
    if #all > 2 then
      fail("%s: compute: 'average' is \"binary\" and there are %d classes",
        class.name(class.of(self)), #all)
    end
    return all[2] or o.zero_division
  end
  local guessed, actual = self.guessed:totable(), self.actual:totable()
  if o.average == "weighted" then return metric.weighted_mean(all, actual) end
  local occurs = {}
  for i, n in ipairs(actual) do occurs[i] = n + guessed[i] > 0 and 1 or 0 end
  return metric.weighted_mean(all, occurs)
end

-- A class of metrics that are the ratio of counts of each class.
local function define(name, ratio)
  local cls = metric.define(name, AVERAGED)
  local where = name .. ": update"
  local read_update = signature(name .. ":update(Tensor input, Tensor target)", where)

  function cls:clear()
    clear_counts(self)
  end

  --- Adds a batch, as `metrics.Accuracy.update` does.
  --- > ml.metrics.Precision():update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
  ---   0.75
  ---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
  ---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
  ---@return moonlet.metrics.Metric self
  ---@shape input (n, classes, ...) or (n, ...), target (n, ...)
  function cls:update(...)
    local input, target = read_update(...)
    count_classes(where, self, input, target)
    return self
  end

  function cls:merge(other) merge_counts(self, other) end

  --- The result for all that came: a number, or with `average = "none"` a tensor of the classes.
  ---@return number|moonlet.Tensor
  function cls:compute() return averaged(self, ratio) end

  return cls
end

--- Precision: of the examples predicted as a class, the share that is of it, in [0, 1].
--- > metric = ml.metrics.Precision()
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   0.75
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula precision = TP / (TP + FP)
classes.Precision = define("Precision", function(right, guessed) return right, guessed end)

--- Recall: of the examples of a class, the share that is predicted as it, in [0, 1].
--- > metric = ml.metrics.Recall()
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   0.75
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula recall = TP / (TP + FN)
classes.Recall = define("Recall", function(right, _, actual) return right, actual end)

--- F1 score: the harmonic mean of precision and recall, in [0, 1].
--- > metric = ml.metrics.F1()
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   0.66666666666667
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula F1 = 2 TP / (2 TP + FP + FN)
classes.F1 = define("F1", function(right, guessed, actual) return right * 2, guessed + actual end)

local CONFUSION = 'int>=1? num_classes=nil, Normalize normalize="none", number threshold=0.5'

--- Confusion matrix: the element in row i and column j counts the examples of class i that are
--- predicted as class j. `ml.plot.confusion` shows it.
--- > metric = ml.metrics.ConfusionMatrix()
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   {{1, 1},
---    {0, 1}}
---   Tensor (2, 2) int64
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param normalize? string "none" (counts), "true" (shares of rows), "pred" (of columns) or "all"
---@param threshold? number probability from which on class 2 is predicted
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> (classes, classes)
---@formula C_ij = sum_k 1[target_k = i] 1[prediction_k = j]
local ConfusionMatrix = metric.define("ConfusionMatrix", CONFUSION)
classes.ConfusionMatrix = ConfusionMatrix

function ConfusionMatrix:clear()
  local size = self.options.num_classes or 0
  self.counts = ml.zeros { size, size, dtype = ml.int64 }
end

local function add_matrix(self, more)
  local size = math.max(#self.counts, #more)
  local sum = ml.zeros { size, size, dtype = ml.int64 }
  for _, part in ipairs { self.counts, more } do
    if #part > 0 then sum[{ { 1, #part }, { 1, #part } }]:add_(part) end
  end
  self.counts = sum
end

local read_matrix_update = signature("ConfusionMatrix:update(Tensor input, Tensor target)",
  "ConfusionMatrix: update")

--- Adds a batch, as `metrics.Accuracy.update` does.
--- > ml.metrics.ConfusionMatrix():update(ml.tensor{1, 2}, ml.tensor{2, 2}):compute()
---   {{0, 0},
---    {1, 1}}
---   Tensor (2, 2) int64
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@return moonlet.metrics.Metric self
---@shape input (n, classes, ...) or (n, ...), target (n, ...)
function ConfusionMatrix:update(...)
  local input, target = read_matrix_update(...)
  local guesses, truths, count = metric.classes("ConfusionMatrix: update", input, target,
    self.options)
  add_matrix(self, bincount((truths - 1) * count + guesses, count * count):reshape(count, count))
  return self
end

function ConfusionMatrix:merge(other)
  local own = self.options.num_classes
  if own and #other.counts > own then
    fail("merge_state: the metrics have %d and %d classes", own, #other.counts)
  end
  add_matrix(self, other.counts)
end

--- The matrix over all batches: counts in int64, or shares in float64, 0 where a row or column is
--- empty.
--- > metric = ml.metrics.ConfusionMatrix{normalize = "true"}
--- > metric:update(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1}):compute()
---   {{0.5000, 0.5000},
---    {0.0000, 1.0000}}
---   Tensor (2, 2) float64
---@return moonlet.Tensor
---@shape -> (classes, classes)
function ConfusionMatrix:compute()
  local how = self.options.normalize
  if how == "none" then return self.counts:clone() end
  local counts = self.counts:to(ml.float64)
  local total = how == "all" and counts:sum() or counts:sum { dim = how == "true" and 2 or 1,
    keepdim = true }
  return (counts / total):nan_to_num(0)
end

local read = {}
for name, parameters in pairs { accuracy = ACCURACY, precision = AVERAGED, recall = AVERAGED,
  f1_score = AVERAGED, confusion_matrix = CONFUSION } do
  read[name] = signature(("metrics.%s(Tensor input, Tensor target, %s)"):format(name, parameters))
end

--- Accuracy of one batch, in [0, 1]; see `metrics.Accuracy`.
--- > ml.metrics.accuracy(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 3})
---   0.66666666666667
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "micro" (share of all), "macro" (mean over classes) or "none" (each class)
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param top_k? integer correct if the class is among the `top_k` highest scores
---@param threshold? number probability from which on class 2 is predicted
---@return number|moonlet.Tensor
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula accuracy = 1/n sum_i 1[prediction_i = target_i]
function classes.accuracy(...) return once(Accuracy, read.accuracy:table(...)) end

--- Precision of one batch, in [0, 1]; see `metrics.Precision`.
--- > ml.metrics.precision(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1})
---   0.75
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@return number|moonlet.Tensor
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula precision = TP / (TP + FP)
function classes.precision(...) return once(classes.Precision, read.precision:table(...)) end

--- Recall of one batch, in [0, 1]; see `metrics.Recall`.
--- > ml.metrics.recall(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1})
---   0.75
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@return number|moonlet.Tensor
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula recall = TP / (TP + FN)
function classes.recall(...) return once(classes.Recall, read.recall:table(...)) end

--- F1 score of one batch, in [0, 1]; see `metrics.F1`.
--- > ml.metrics.f1_score(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1})
---   0.66666666666667
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param average? string "micro", "macro", "weighted" (by support), "binary" (class 2) or "none"
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param zero_division? number the value of a ratio whose denominator is 0, in [0, 1]
---@param threshold? number probability from which on class 2 is predicted
---@return number|moonlet.Tensor
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> number, or (classes) for "none"
---@formula F1 = 2 TP / (2 TP + FP + FN)
function classes.f1_score(...) return once(classes.F1, read.f1_score:table(...)) end

--- Confusion matrix of one batch: rows are true classes, columns predicted ones; see
--- `metrics.ConfusionMatrix`.
--- > ml.metrics.confusion_matrix(ml.tensor{1, 2, 2}, ml.tensor{1, 2, 1})
---   {{1, 1},
---    {0, 1}}
---   Tensor (2, 2) int64
---@param input moonlet.Tensor scores (n, classes, ...), classes (n, ...) or chances of class 2
---@param target moonlet.Tensor true classes from 1, or for two classes truth values or 0 and 1
---@param num_classes? integer the number of classes; inferred from the data unless given
---@param normalize? string "none" (counts), "true" (shares of rows), "pred" (of columns) or "all"
---@param threshold? number probability from which on class 2 is predicted
---@return moonlet.Tensor
---@shape input (n, classes, ...) or (n, ...), target (n, ...) -> (classes, classes)
---@formula C_ij = sum_k 1[target_k = i] 1[prediction_k = j]
function classes.confusion_matrix(...)
  return once(ConfusionMatrix, read.confusion_matrix:table(...))
end

return classes
