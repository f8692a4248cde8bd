-- tests/lua/optim/metrics_test.lua: ml.metrics against numbers of scikit-learn 1.9 and PyTorch, in one
-- batch, in chunks and merged.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local metrics = require "moonlet.metrics"

local TRUTHS = ml.tensor { 1, 2, 3, 1, 2, 3, 3, 1, 2, 3 }
local GUESSES = ml.tensor { 1, 3, 3, 1, 2, 1, 3, 2, 2, 5 }
local LABELS = ml.tensor { 0., 0, 1, 1, 0, 1, 1, 0, 1, 0 }
local PROBABILITIES = ml.tensor({ .1, .4, .35, .8, .4, .9, .4, .2, .7, .6 },
  { dtype = ml.float64 })
local SCORES = ml.tensor({ { .7, .2, .1 }, { .1, .6, .3 }, { .2, .3, .5 }, { .28, .4, .32 },
  { .2, .5, .3 }, { .1, .1, .8 }, { .4, .35, .25 }, { .6, .3, .1 } }, { dtype = ml.float64 })
local CLASSES = ml.tensor { 1, 2, 3, 1, 3, 3, 2, 1 }

local function plain(value) return ml.is_tensor(value) and value:totable() or value end

-- The result for a whole batch, for chunks of it, and for chunks of two metrics that are merged.
local function check(make, input, target, wanted, tolerance)
  tolerance = tolerance or 1e-12
  expect.near(plain(make():update(input, target):compute()), wanted, tolerance, "whole")
  local chunks, first, second = make(), make(), make()
  for at = 1, #input, 3 do
    local size = math.min(3, #input - at + 1)
    local x, t = input:narrow(1, at, size), target:narrow(1, at, size)
    chunks:update(x, t)
    local part = at % 2 == 0 and first or second
    part:update(x, t)
  end
  expect.near(plain(chunks:compute()), wanted, tolerance, "chunks")
  expect.equal(first:merge_state { second }, first)
  expect.near(plain(first:compute()), wanted, tolerance, "merged")
  expect.near(plain(chunks:reset():update(input, target):compute()), wanted, tolerance, "reset")
  chunks:merge_state { make() }
  expect.near(plain(chunks:compute()), wanted, tolerance, "merged with nothing")
end

local function checker(cls, input, target)
  return function(options, wanted)
    check(function() return cls(options) end, input, target, wanted)
  end
end

test("accuracy, overall and of classes", function()
  local of_guesses = checker(metrics.Accuracy, GUESSES, TRUTHS)
  of_guesses({}, 0.6)
  of_guesses({ average = "macro" }, 0.611111111111111)
  of_guesses({ average = "none", num_classes = 5 }, { 2 / 3, 2 / 3, 0.5, 0 / 0, 0 / 0 })
  of_guesses({ average = "none" }, { 2 / 3, 2 / 3, 0.5, 0 / 0, 0 / 0 })
  local of_scores = checker(metrics.Accuracy, SCORES, CLASSES)
  of_scores({}, 0.625)
  of_scores({ top_k = 2 }, 0.875)
  of_scores({ top_k = 3 }, 1.0)
  of_scores({ top_k = 2, average = "none" }, { 2 / 3, 1.0, 1.0 })
  checker(metrics.Accuracy, PROBABILITIES, LABELS)({}, 0.7)
  checker(metrics.Accuracy, PROBABILITIES, LABELS:bool())({}, 0.7)
  checker(metrics.Accuracy, PROBABILITIES, LABELS:long() + 1)({ threshold = 0.39 }, 0.6)
  checker(metrics.Accuracy, SCORES:unsqueeze(3), CLASSES:unsqueeze(2))({}, 0.625)
  expect.near(metrics.accuracy(SCORES, CLASSES, { top_k = 2 }), 0.875)
  expect.truthy(metrics.Accuracy():compute() ~= metrics.Accuracy():compute())
end)

test("precision, recall and F1 by their averages", function()
  local p = checker(metrics.Precision, GUESSES, TRUTHS)
  local r = checker(metrics.Recall, GUESSES, TRUTHS)
  local f = checker(metrics.F1, GUESSES, TRUTHS)
  p({ average = "micro" }, 0.6)
  r({ average = "micro" }, 0.6)
  f({ average = "micro" }, 0.6)
  p({}, 0.5)
  r({}, 0.4583333333333333)
  f({}, 0.47619047619047616)
  p({ average = "weighted" }, 0.6666666666666666)
  r({ average = "weighted" }, 0.6)
  f({ average = "weighted" }, 0.6285714285714286)
  p({ average = "none" }, { 2 / 3, 2 / 3, 2 / 3, 0, 0 })
  r({ average = "none" }, { 2 / 3, 2 / 3, 0.5, 0, 0 })
  f({ average = "none", num_classes = 6 }, { 2 / 3, 2 / 3, 4 / 7, 0, 0, 0 })
  p({ zero_division = 1 }, 0.5)
  r({ zero_division = 1 }, 0.7083333333333333)
  f({ zero_division = 1 }, 0.47619047619047616)
  checker(metrics.Precision, PROBABILITIES, LABELS)({ average = "binary" }, 0.75)
  checker(metrics.Recall, PROBABILITIES, LABELS)({ average = "binary" }, 0.6)
  checker(metrics.F1, PROBABILITIES, LABELS)({ average = "binary" }, 2 / 3)
  expect.near(metrics.precision(GUESSES, TRUTHS, "weighted"), 2 / 3)
  expect.near(metrics.recall(GUESSES, TRUTHS), 0.4583333333333333)
  expect.near(metrics.f1_score(GUESSES, TRUTHS, { average = "micro" }), 0.6)
  expect.error(function() p({ average = "binary" }, 0) end, "there are 5 classes")
end)

test("the confusion matrix", function()
  local check_matrix = checker(metrics.ConfusionMatrix, GUESSES, TRUTHS)
  check_matrix({}, { { 2, 1, 0, 0, 0 }, { 0, 2, 1, 0, 0 }, { 1, 0, 2, 0, 1 }, { 0, 0, 0, 0, 0 },
    { 0, 0, 0, 0, 0 } })
  local third = 1 / 3
  local zeros = { 0, 0, 0, 0, 0 }
  check_matrix({ normalize = "true" }, { { 2 * third, third, 0, 0, 0 },
    { 0, 2 * third, third, 0, 0 }, { 0.25, 0, 0.5, 0, 0.25 }, zeros, zeros })
  check_matrix({ normalize = "pred" }, { { 2 * third, third, 0, 0, 0 },
    { 0, 2 * third, third, 0, 0 }, { third, 0, 2 * third, 0, 1 }, zeros, zeros })
  check_matrix({ normalize = "all", num_classes = 5 }, { { 0.2, 0.1, 0, 0, 0 },
    { 0, 0.2, 0.1, 0, 0 }, { 0.1, 0, 0.2, 0, 0.1 }, zeros, zeros })
  local counts = metrics.confusion_matrix(SCORES, CLASSES)
  expect.equal(counts.dtype, ml.int64)
  expect.equal(counts:totable(), { { 2, 1, 0 }, { 1, 1, 0 }, { 0, 1, 2 } })
  expect.truthy(ml.plot.confusion(counts):text())
end)

test("the area under the ROC curve and average precision", function()
  checker(metrics.AUROC, PROBABILITIES, LABELS)({}, 0.8)
  checker(metrics.AveragePrecision, PROBABILITIES, LABELS:long() + 1)({}, 0.8392857142857143)
  local area = checker(metrics.AUROC, SCORES, CLASSES)
  area({}, 0.8888888888888888)
  area({ average = "weighted" }, 0.8958333333333333)
  area({ average = "none", num_classes = 3 }, { 0.9333333333333333, 0.8333333333333333, 0.9 })
  local average = checker(metrics.AveragePrecision, SCORES, CLASSES)
  average({}, 0.8444444444444444)
  average({ average = "weighted" }, 0.85625)
  average({ average = "none" }, { 0.9166666666666666, 0.75, 0.8666666666666667 })
  expect.near(metrics.auroc(PROBABILITIES, LABELS), 0.8)
  expect.near(metrics.average_precision(SCORES, CLASSES), 0.8444444444444444)
  local ones = ml.ones(3)
  local rising = ml.tensor { 0.1, 0.2, 0.3 }
  expect.near(metrics.auroc(rising, ones), 0 / 0)
  expect.near(metrics.average_precision(rising, ones), 1.0)
  expect.near(metrics.average_precision(rising, ones - 1), 0.0)
  expect.near(metrics.AUROC():compute(), 0 / 0)
  expect.near(metrics.auroc(ml.zeros { 0 }, ml.zeros { 0 }), 0 / 0)
end)

test("ROC and precision-recall curves", function()
  local function curves(f, options)
    local out = { f(PROBABILITIES, LABELS, options) }
    for i, t in ipairs(out) do out[i] = t:totable() end
    return out
  end
  expect.near(curves(metrics.roc_curve), { { 0, 0, 0, 0.2, 0.6, 0.6, 1 },
    { 0, 0.2, 0.6, 0.6, 0.8, 1, 1 }, { math.huge, 0.9, 0.7, 0.6, 0.4, 0.35, 0.1 } })
  expect.near(curves(metrics.roc_curve, { drop_intermediate = false }),
    { { 0, 0, 0, 0, 0.2, 0.6, 0.6, 0.8, 1 }, { 0, 0.2, 0.4, 0.6, 0.6, 0.8, 1, 1, 1 },
      { math.huge, 0.9, 0.8, 0.7, 0.6, 0.4, 0.35, 0.2, 0.1 } })
  expect.near(curves(metrics.precision_recall_curve),
    { { 0.5, 5 / 9, 0.625, 4 / 7, 0.75, 1, 1, 1, 1 }, { 1, 1, 1, 0.8, 0.6, 0.6, 0.4, 0.2, 0 },
      { 0.1, 0.2, 0.35, 0.4, 0.6, 0.7, 0.8, 0.9 } })
  local fpr, tpr = metrics.roc_curve(ml.tensor { 0.1, 0.2, 0.3 }, ml.zeros(3))
  expect.near(fpr:totable(), { 0, 1 / 3, 1 })
  expect.near(tpr:totable(), { 0 / 0, 0 / 0, 0 / 0 })
  local _, recall = metrics.precision_recall_curve(ml.tensor { 0.1, 0.2, 0.3 }, ml.zeros(3))
  expect.near(recall:totable(), { 1, 1, 1, 0 })
end)

test("squared errors and R2", function()
  local y = ml.tensor({ { 3, -.5 }, { 2, 1 }, { 7, -2 }, { 5, .25 } }, { dtype = ml.float64 })
  local h = ml.tensor({ { 2.5, 0 }, { 2, 2 }, { 8, -1.5 }, { 4, .5 } }, { dtype = ml.float64 })
  local squared = checker(metrics.MeanSquaredError, h, y)
  squared({}, 0.4765625)
  squared({ multioutput = "raw_values" }, { 0.5625, 0.390625 })
  squared({ squared = false }, 0.6875)
  squared({ squared = false, multioutput = "raw_values" }, { 0.75, 0.625 })
  local r2 = checker(metrics.R2, h, y)
  r2({}, 0.7649986548291633)
  r2({ multioutput = "raw_values" }, { 0.8474576271186441, 0.6825396825396826 })
  r2({ multioutput = "variance_weighted" }, 0.8061953931691819)
  checker(metrics.R2, h:select(2, 1), y:select(2, 1))({}, 0.847457627118644)
  expect.near(metrics.mean_squared_error(h:select(2, 1), y:select(2, 1)), 0.5625)
  local two = ml.tensor { 2., 2, 2 }
  expect.equal(metrics.r2_score(two, two), 1.0)
  expect.equal(metrics.r2_score(ml.tensor { 1., 2, 3 }, two), 0.0)
  expect.near(metrics.r2_score(ml.ones(1), ml.ones(1)), 0 / 0)
  -- Far from zero the spread keeps its digits.
  local far = ml.arange(8):to(ml.float64) + 1e9
  check(metrics.R2, far + 0.5, far, 1 - 8 * 0.25 / 42, 1e-9)
end)

test("perplexity and running means", function()
  local scores = ml.tensor({ { { .1, .2, -.3 }, { 1., -1., .5 } },
    { { .25, .5, .75 }, { 2., 0., -2. } } }):double()
  local words = ml.tensor { { 1, 3 }, { 2, 1 } }
  checker(metrics.Perplexity, scores, words)({}, 2.3036931933628884)
  checker(metrics.Perplexity, scores, words)({ ignore_index = 3 }, 2.140485035106622)
  expect.near(metrics.perplexity(scores:float(), words), 2.3036931933628884, 1e-6)
  expect.near(metrics.Perplexity():compute(), 0 / 0)
  local padded = ml.tensor { { 1, -100 }, { 2, 1 } }
  expect.near(metrics.perplexity(scores, padded, { ignore_index = -100 }), 2.140485035106622)
  local mean = metrics.Mean()
  expect.near(mean:compute(), 0 / 0)
  expect.equal(mean:update(1.5, 2):update(3):compute(), 2.0)
  mean:update(ml.tensor { { 1, 2 }, { 3, 4 } })
  expect.near(mean:compute(), 16 / 7)
  local other = metrics.Mean():update(4, { weight = 9 })
  expect.near(mean:merge_state({ other }):compute(), 52 / 16)
end)

test("nothing is recorded, and results stay as they are", function()
  local scores = SCORES:clone():requires_grad_()
  local matrix = metrics.ConfusionMatrix():update(scores, CLASSES)
  local before = matrix:compute()
  matrix:update(scores, CLASSES)
  expect.equal(before:sum():item(), 8)
  local squared = metrics.MeanSquaredError { multioutput = "raw_values" }
  expect.falsy(squared:update(scores, SCORES + 1):compute().requires_grad)
  expect.near(metrics.auroc(scores, CLASSES), 0.8888888888888888)
end)

test("wrong arguments", function()
  local function wrong(f, pattern) expect.error(f, pattern) end
  local one = ml.tensor { 1 }
  wrong(function() metrics.accuracy(one, ml.tensor { 0 }) end, "'target' has class 0.*from 1")
  wrong(function() metrics.accuracy(ml.tensor { -1 }, one) end, "'input' has class %-1")
  wrong(function() metrics.accuracy(SCORES, CLASSES + 1) end, "'target' has class 4 of 3 classes")
  wrong(function() metrics.accuracy(one, ml.tensor { 1, 2 }) end, "shape %(1,%), 'target' %(2,%)")
  wrong(function() metrics.accuracy(SCORES, CLASSES:narrow(1, 1, 3)) end, "floating scores")
  wrong(function() metrics.accuracy(SCORES, CLASSES, { num_classes = 4 }) end, "for 3 classes")
  wrong(function() metrics.accuracy(SCORES, CLASSES, { top_k = 4 }) end, "'top_k' is 4 for 3")
  wrong(function() metrics.accuracy(one, one, { top_k = 2 }) end, "a score for each class")
  wrong(function() metrics.accuracy(SCORES, CLASSES:double()) end, "must be classes, integers")
  wrong(function() metrics.accuracy(PROBABILITIES, LABELS * 2) end, "0 or 1 everywhere")
  wrong(function() metrics.accuracy(PROBABILITIES, LABELS:long()) end, "class 0")
  wrong(function() metrics.Accuracy { topk = 2 } end, "unknown option 'topk'.*'top_k'")
  wrong(function() metrics.Accuracy { average = "weighted" } end, "'average' must be micro, macro")
  wrong(function() metrics.F1 { zero_division = 2 } end, "from 0 to 1")
  wrong(function() metrics.F1():merge_state { metrics.Recall() } end, "metric 1 must be a F1")
  local own = metrics.F1()
  wrong(function() own:merge_state { own } end, "metric 1 is the one to merge into")
  wrong(function()
    metrics.F1 { num_classes = 2 }:merge_state { metrics.F1 { num_classes = 3 } }
  end, "2 and 3 classes")
  local Own = require "moonlet.class"("Own", metrics.Metric)
  wrong(function() Own():merge_state { Own() } end, "Own: has no method merge")
  wrong(function() metrics.accuracy(one * (1 << 40), one) end, "so many want 'num_classes'")
  wrong(function() metrics.auroc(one, one) end, "floating dtype")
  wrong(function() metrics.auroc(ml.tensor { 0 / 0 }, one) end, "has a NaN")
  wrong(function() metrics.AUROC():update(SCORES, CLASSES):update(PROBABILITIES, LABELS) end,
    "scores for 1 classes follow such for 3")
  wrong(function() metrics.roc_curve(SCORES, CLASSES) end, "shape %(8, 3%)")
  wrong(function() metrics.roc_curve(ml.zeros { 0 }, ml.zeros { 0 }) end, "is empty")
  wrong(function() metrics.perplexity(SCORES, CLASSES + 1) end, "class 4 of 3")
  wrong(function() metrics.perplexity(CLASSES, CLASSES) end, "floating scores")
  wrong(function() metrics.mean_squared_error(SCORES, CLASSES) end, "the same shape")
  wrong(function() metrics.R2():update(SCORES, SCORES):update(CLASSES, CLASSES) end,
    "1 outputs follow 3")
  wrong(function() metrics.Mean():update "x" end, "'value'")
  wrong(function() metrics.Accurcy() end, "ccuracy")
end)

harness.run()
