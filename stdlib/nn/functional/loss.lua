-- stdlib/nn/functional/loss.lua: the losses of nn.functional. Classes in targets count from 1.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local losses = {}

local CLASSES = "(Tensor input, Tensor target, Tensor? weight=nil, int ignore_index=-100, "
  .. 'Reduction reduction="mean"'
local read_cross_entropy = declare.reader("cross_entropy" .. CLASSES
  .. ", number>=0<=1 label_smoothing=0.0)")

--- The negative log likelihood of classes, from 1, or of class probabilities, under the softmax of
--- scores (n, classes, ...).
---@return Tensor
function losses.cross_entropy(...)
  local input, target, weight, ignore_index, reduction, label_smoothing = read_cross_entropy(...)
  return ml.cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
end

local read_nll_loss = declare.reader("nll_loss" .. CLASSES .. ")")

--- Minus the log probability, of (n, classes, ...), of each target class, from 1.
---@return Tensor
function losses.nll_loss(...)
  local input, target, weight, ignore_index, reduction = read_nll_loss(...)
  if target.dtype == "uint8" then target = target:long() end
  return ml.nll_loss(input, target, weight, reduction, ignore_index)
end

local PAIR = '(Tensor input, Tensor target, Reduction reduction="mean"'

local WEIGHTED = ", Tensor? weight=nil)"

--- The squared difference, times `weight` where given; a mean is then divided by its sum.
losses.mse_loss = declare.op("mse_loss" .. PAIR .. WEIGHTED)
--- The absolute difference, times `weight` where given; a mean is then divided by its sum.
losses.l1_loss = declare.op("l1_loss" .. PAIR .. WEIGHTED)
--- `d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere.
losses.smooth_l1_loss = declare.op("smooth_l1_loss" .. PAIR .. ", number>=0 beta=1.0)")
--- `d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere, times
--- `weight` where given.
losses.huber_loss = declare.op("huber_loss" .. PAIR .. ", number>0 delta=1.0" .. WEIGHTED)
--- The cross entropy of probabilities, for targets from 0 to 1 in the same shape.
losses.binary_cross_entropy = declare.op("binary_cross_entropy(Tensor input, Tensor target, "
  .. 'Tensor? weight=nil, Reduction reduction="mean")')

local read_bce_logits = declare.reader("binary_cross_entropy_with_logits(Tensor input, "
  .. 'Tensor target, Tensor? weight=nil, Reduction reduction="mean", Tensor? pos_weight=nil)')

--- `binary_cross_entropy` of the sigmoid of scores, without overflow. `pos_weight` multiplies the
--- part of the positive targets.
---@return Tensor
function losses.binary_cross_entropy_with_logits(...)
  local input, target, weight, reduction, pos_weight = read_bce_logits(...)
  return ml.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)
end

--- The Kullback-Leibler divergence of log probabilities from the target's probabilities, or its
--- logarithms with `log_target`.
losses.kl_div = declare.op("kl_div(Tensor input, Tensor target, "
  .. 'KLReduction reduction="mean", bool log_target=false)')

local read_linear_cross_entropy = declare.reader("linear_cross_entropy(Tensor input, "
  .. "Tensor linear_weight, Tensor target, Tensor? linear_bias=nil, Tensor? weight=nil, "
  .. 'Reduction reduction="mean", int? ignore_index=nil, number>=0<=1 label_smoothing=0.0)')

--- `cross_entropy` of the scores `linear(input, linear_weight, linear_bias)`.
---@return Tensor
function losses.linear_cross_entropy(...)
  local input, linear_weight, target, linear_bias, weight, reduction, ignore_index, smoothing =
    read_linear_cross_entropy(...)
  return ml.linear_cross_entropy(input, linear_weight, target, linear_bias, weight, reduction,
    ignore_index or -100, smoothing)
end

local read_ctc_loss = declare.reader("ctc_loss(Tensor log_probs, Tensor targets, "
  .. "Tensor|int[]|int input_lengths, Tensor|int[]|int target_lengths, int blank=1, "
  .. 'Reduction reduction="mean", bool zero_infinity=false)')

-- Lengths as a list of numbers.
local function lengths_of(given)
  if type(given) == "number" then return { given } end
  return ml.is_tensor(given) and given:reshape(-1):tolist() or given
end

--- The connectionist temporal classification loss of `log_probs` (t, n, c), or (t, c): `targets`
--- are classes from 1, (n, s), or those of all entries one after the other, and `blank`, the first
--- unless given, is none of them.
---@return Tensor
function losses.ctc_loss(...)
  local log_probs, targets, inputs, lengths, blank, reduction, zero_infinity = read_ctc_loss(...)
  return ml.ctc_loss(log_probs, targets, lengths_of(inputs), lengths_of(lengths), blank, reduction,
    zero_infinity)
end

local REDUCTION = ', Reduction reduction="mean")'

--- `max(0, margin - target (input1 - input2))`.
losses.margin_ranking_loss = declare.op("margin_ranking_loss(Tensor input1, Tensor input2, "
  .. "Tensor target, number margin=0" .. REDUCTION)
--- `input` where `target` is 1, `max(0, margin - input)` where it is -1.
losses.hinge_embedding_loss = declare.op(
  "hinge_embedding_loss(Tensor input, Tensor target, number margin=1" .. REDUCTION)
--- `log(1 + exp(-target input))`.
losses.soft_margin_loss = declare.op("soft_margin_loss" .. PAIR .. ")")
--- One minus the cosine of the angle where `target` is 1, `max(0, cos - margin)` where it is -1.
losses.cosine_embedding_loss = declare.op("cosine_embedding_loss(Tensor input1, Tensor input2, "
  .. "Tensor target, number margin=0" .. REDUCTION)
--- `max(0, d(anchor, positive) - d(anchor, negative) + margin)` with the distance of the `p`-norm.
losses.triplet_margin_loss = declare.op("triplet_margin_loss(Tensor anchor, Tensor positive, "
  .. "Tensor negative, number>0 margin=1.0, number p=2, number eps=1e-6, bool swap=false"
  .. REDUCTION)

local read_triplet = declare.reader("triplet_margin_with_distance_loss(Tensor anchor, "
  .. "Tensor positive, Tensor negative, function? distance_function=nil, number>0 margin=1.0, "
  .. "bool swap=false" .. REDUCTION)

--- `triplet_margin_loss` with a distance of your own, `pairwise_distance` unless given: a function
--- of two tensors.
---@return Tensor
function losses.triplet_margin_with_distance_loss(...)
  local anchor, positive, negative, distance, margin, swap, reduction = read_triplet(...)
  distance = distance or ml.pairwise_distance
  if anchor.ndim ~= positive.ndim or anchor.ndim ~= negative.ndim then
    options.fail("triplet_margin_with_distance_loss: the inputs have %d, %d and %d dimensions",
      anchor.ndim, positive.ndim, negative.ndim)
  end
  local near, far = distance(anchor, positive), distance(anchor, negative)
  if swap then far = ml.minimum(far, distance(positive, negative)) end
  local loss = (near - far + margin):relu()
  if reduction == "none" then return loss end
  return reduction == "sum" and loss:sum() or loss:mean()
end

--- The sum of `max(0, margin - input[target] + input[i])^p` over the other classes, divided by
--- their number. `weight` has a factor for each class.
losses.multi_margin_loss = declare.op("multi_margin_loss(Tensor input, Tensor target, "
  .. "int>=1<=2 p=1, number margin=1.0, Tensor? weight=nil" .. REDUCTION)
--- The sum of `max(0, 1 - input[label] + input[i])` over labels and classes that are none, divided
--- by the number of classes. An entry below 1 ends a row of labels.
losses.multilabel_margin_loss = declare.op("multilabel_margin_loss" .. PAIR .. ")")
--- The mean over classes of the binary cross entropy of logits.
losses.multilabel_soft_margin_loss = declare.op("multilabel_soft_margin_loss(Tensor input, "
  .. "Tensor target, Tensor? weight=nil" .. REDUCTION)
--- The negative log likelihood of counts under Poisson distributions.
losses.poisson_nll_loss = declare.op("poisson_nll_loss(Tensor input, Tensor target, "
  .. "bool log_input=true, bool full=false, number eps=1e-8" .. REDUCTION)
--- The negative log likelihood under normal distributions with the means `input` and variances
--- `var`.
losses.gaussian_nll_loss = declare.op("gaussian_nll_loss(Tensor input, Tensor target, "
  .. "Tensor|number var, bool full=false, number>0 eps=1e-6" .. REDUCTION)

return losses
