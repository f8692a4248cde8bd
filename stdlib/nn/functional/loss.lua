-- stdlib/nn/functional/loss.lua: the losses of nn.functional. Classes in targets count from 1.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local losses = {}

local CLASSES = "(Tensor input, Tensor target, Tensor? weight=nil, int ignore_index=-100, "
  .. 'Reduction reduction="mean"'
local read_cross_entropy = declare.reader("cross_entropy" .. CLASSES
  .. ", number>=0<=1 label_smoothing=0.0)")

--- Cross entropy of classes under the softmax of scores. The scores (logits) need not be
--- normalised. The target holds classes, integers from 1, or, in the shape of the input, the
--- probability of each class. The mean is over the targets that are not `ignore_index`, weighted by
--- their class's `weight`.
--- > ml.nn.functional.cross_entropy(ml.tensor { { 2.0, 1, 0 } }, ml.tensor { 1 })
---   0.4076  Tensor () float32
---@param input the scores, the classes in the second dimension
---@param target the classes, from 1, or their probabilities
---@param weight a factor for each class, (classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param label_smoothing which part of the target is spread evenly over all classes, from 0 to 1
---@return Tensor
---@shape input (n, classes, *), target (n, *) or (n, classes, *) -> (), or (n, *) without reduction
---@formula loss = -w_y (x_y - log(sum_c exp(x_c)))
---@formula probabilities: loss = -sum_c w_c p_c (x_c - log(sum_k exp(x_k)))
---@formula label smoothing: p_c = (1 - label_smoothing) [c = y] + label_smoothing / classes
---@error a class below 1 or above the number of classes that is not `ignore_index`
function losses.cross_entropy(...)
  local input, target, weight, ignore_index, reduction, label_smoothing = read_cross_entropy(...)
  return ml.cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
end

local read_nll_loss = declare.reader("nll_loss" .. CLASSES .. ")")

--- Negative log likelihood of classes. The input has logarithms of probabilities, as `LogSoftmax`
--- gives them; targets are integers from 1.
--- > ml.nn.functional.nll_loss(ml.tensor { { 0.7, 0.3 } }:log(), ml.tensor { 1 })
---   0.3567  Tensor () float32
---@param input the logarithms of probabilities, the classes in the second dimension
---@param target the classes, from 1
---@param weight a factor for each class, (classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param reduction "mean" "mean" of the losses, weighted by their class, their "sum", or "none"
---@return Tensor
---@shape input (n, classes, *), target (n, *) -> (), or (n, *) without reduction
---@formula loss = -w_y x_y
---@error a class below 1 or above the number of classes that is not `ignore_index`
function losses.nll_loss(...)
  local input, target, weight, ignore_index, reduction = read_nll_loss(...)
  if target.dtype == "uint8" then target = target:long() end
  return ml.nll_loss(input, target, weight, reduction, ignore_index)
end

local PAIR = '(Tensor input, Tensor target, Reduction reduction="mean"'

local WEIGHTED = ", Tensor? weight=nil)"

--- Mean squared error.
--- > ml.nn.functional.mse_loss(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   1.6667  Tensor () float32
---@param input the predictions
---@param target the values to predict, in the same shape
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param weight a factor for each element, in the same shape; a mean is divided by its sum
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = (x_i - y_i)^2
losses.mse_loss = declare.op("mse_loss" .. PAIR .. WEIGHTED)
--- Mean absolute error.
--- > ml.nn.functional.l1_loss(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   1.  Tensor () float32
---@param input the predictions
---@param target the values to predict, in the same shape
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param weight a factor for each element, in the same shape; a mean is divided by its sum
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = |x_i - y_i|
losses.l1_loss = declare.op("l1_loss" .. PAIR .. WEIGHTED)
--- Smooth L1 loss: squared near 0, absolute further away.
--- > ml.nn.functional.smooth_l1_loss(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   0.6667  Tensor () float32
---@param input the predictions
---@param target the values to predict, in the same shape
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param beta where the squared part ends; 0 gives `l1_loss`
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = d_i^2 / (2 beta) if |d_i| < beta, else |d_i| - beta / 2
---@formula d_i = x_i - y_i
---@source Girshick, 2015: Fast R-CNN
losses.smooth_l1_loss = declare.op("smooth_l1_loss" .. PAIR .. ", number>=0 beta=1.0)")
--- Huber loss: squared near 0, absolute further away.
--- > ml.nn.functional.huber_loss(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   0.6667  Tensor () float32
---@param input the predictions
---@param target the values to predict, in the same shape
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param delta where the squared part ends, above 0
---@param weight a factor for each element, in the same shape
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = d_i^2 / 2 if |d_i| <= delta, else delta (|d_i| - delta / 2)
---@formula d_i = x_i - y_i
---@source Huber, 1964: Robust estimation of a location parameter
losses.huber_loss = declare.op("huber_loss" .. PAIR .. ", number>0 delta=1.0" .. WEIGHTED)
--- Binary cross entropy of probabilities. Inputs and targets are from 0 to 1. Logarithms count as
--- at least -100, so that the loss is finite. `BCEWithLogitsLoss` takes scores and is more exact.
--- > ml.nn.functional.binary_cross_entropy(ml.tensor { 0.9, 0.2 }, ml.tensor { 1.0, 0 })
---   0.1643  Tensor () float32
---@param input the probabilities
---@param target the probabilities to predict, in the same shape
---@param weight a factor for each element, broadcast to the input's shape: 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = -w_i (y_i log(x_i) + (1 - y_i) log(1 - x_i))
---@error an input outside of the range from 0 to 1
losses.binary_cross_entropy = declare.op("binary_cross_entropy(Tensor input, Tensor target, "
  .. 'Tensor? weight=nil, Reduction reduction="mean")')

local read_bce_logits = declare.reader("binary_cross_entropy_with_logits(Tensor input, "
  .. 'Tensor target, Tensor? weight=nil, Reduction reduction="mean", Tensor? pos_weight=nil)')

--- Binary cross entropy of scores: `BCELoss` of their sigmoid, without overflow. Targets are from 0
--- to 1.
--- > ml.nn.functional.binary_cross_entropy_with_logits(ml.tensor { 2.0, -1 }, ml.tensor { 1.0, 0 })
---   0.2201  Tensor () float32
---@param input the scores (logits)
---@param target the probabilities to predict, in the same shape
---@param weight a factor for each element, broadcast to the input's shape: 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param pos_weight p, the factor of the part of positive targets, broadcast: 1 unless given
---@return Tensor
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = -w_i (p y_i log(s_i) + (1 - y_i) log(1 - s_i))
---@formula s_i = 1 / (1 + exp(-x_i))
function losses.binary_cross_entropy_with_logits(...)
  local input, target, weight, reduction, pos_weight = read_bce_logits(...)
  return ml.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)
end

--- Kullback-Leibler divergence of the target's distribution from the input's. The input has
--- logarithms of probabilities. The reduction "batchmean" divides the sum by the first size, which
--- is the divergence by its definition; "mean" divides by the number of elements.
--- > ml.nn.functional.kl_div(ml.tensor { { 0.5, 0.5 } }:log(), ml.tensor { { 0.9, 0.1 } },
---   { reduction = "batchmean" })
---   0.3681  Tensor () float32
---@param input the logarithms of the predicted probabilities
---@param target the probabilities, in the same shape
---@param reduction "mean" "mean" over elements, "batchmean", "sum", or "none" for each of them
---@param log_target whether the target has logarithms of probabilities, too
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = y_i (log(y_i) - x_i)
---@formula log_target: loss_i = exp(y_i) (y_i - x_i)
---@source Kullback and Leibler, 1951: On information and sufficiency
losses.kl_div = declare.op("kl_div(Tensor input, Tensor target, "
  .. 'KLReduction reduction="mean", bool log_target=false)')

local read_linear_cross_entropy = declare.reader("linear_cross_entropy(Tensor input, "
  .. "Tensor linear_weight, Tensor target, Tensor? linear_bias=nil, Tensor? weight=nil, "
  .. 'Reduction reduction="mean", int? ignore_index=nil, number>=0<=1 label_smoothing=0.0)')

--- Cross entropy of the scores that a linear layer gives. All scores are in memory at once.
--- > ml.nn.functional.linear_cross_entropy(ml.ones(1, 2), ml.eye(3, 2), ml.tensor { 1 })
---   0.8620  Tensor () float32
---@param input the features
---@param linear_weight W, a row for each class
---@param target the classes, from 1
---@param linear_bias b, (classes,)
---@param weight a factor for each class, (classes,): 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param ignore_index a target that takes no part
---@param label_smoothing which part of the target is spread evenly over all classes, from 0 to 1
---@return Tensor
---@shape input (n, d), linear_weight (classes, d), target (n) -> (), or (n) without reduction
---@formula loss = cross_entropy(x W^T + b, y)
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

--- Connectionist temporal classification (CTC) loss of sequences without alignment. The negative
--- log likelihood of a target sequence, summed over all ways to stretch it over the steps with
--- repetitions and blanks. Classes count from 1. Targets are a row for each entry, or those of all
--- entries one after the other. The mean divides each loss by its target's length first.
--- > ml.nn.functional.ctc_loss(ml.zeros(4, 1, 3):log_softmax(3), ml.tensor { { 2, 3 } }, { 4 },
---   { 2 })
---   0.8432  Tensor () float32
---@param log_probs the logarithms of the classes' probabilities at each step
---@param targets the classes, from 1
---@param input_lengths how many steps each entry has
---@param target_lengths how many classes each target has
---@param blank the class that stands for none, from 1
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param zero_infinity whether infinite losses, of targets too long for their input, count as 0,
---   with their gradients
---@return Tensor
---@shape log_probs (t, n, c), targets (n, s) or (sum of target_lengths), lengths (n) -> (), or (n)
---   without reduction
---@formula loss = -log(sum over paths pi that collapse to y of prod_t p_t(pi_t))
---@source Graves et al., 2006: Connectionist temporal classification
function losses.ctc_loss(...)
  local log_probs, targets, inputs, lengths, blank, reduction, zero_infinity = read_ctc_loss(...)
  return ml.ctc_loss(log_probs, targets, lengths_of(inputs), lengths_of(lengths), blank, reduction,
    zero_infinity)
end

local REDUCTION = ', Reduction reduction="mean")'

--- Margin ranking loss of pairs of scores. A target of 1 says that the first should be higher, -1
--- the second.
--- > ml.nn.functional.margin_ranking_loss(ml.tensor { 1.0, 2 }, ml.tensor { 3.0, 1 },
---   ml.tensor { 1.0, 1 })
---   1.  Tensor () float32
---@param input1 the first scores a
---@param input2 the second scores b
---@param target 1 or -1 for each pair
---@param margin by how much the scores should differ
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input1 (*), input2 (*), target (*) -> (), or (*) without reduction
---@formula loss_i = max(0, margin - y_i (a_i - b_i))
losses.margin_ranking_loss = declare.op("margin_ranking_loss(Tensor input1, Tensor input2, "
  .. "Tensor target, number margin=0" .. REDUCTION)
--- Hinge embedding loss of distances. Distances of similar pairs, whose target is 1, should be
--- small, those of others, with target -1, at least `margin`.
--- > ml.nn.functional.hinge_embedding_loss(ml.tensor { 0.5, 0.2 }, ml.tensor { 1.0, -1 })
---   0.6500  Tensor () float32
---@param input the distances
---@param target 1 or -1 for each
---@param margin the distance from which dissimilar pairs cost nothing
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = x_i if y_i = 1, max(0, margin - x_i) if y_i = -1
losses.hinge_embedding_loss = declare.op(
  "hinge_embedding_loss(Tensor input, Tensor target, number margin=1" .. REDUCTION)
--- Logistic loss of scores of two classes. Targets are 1 or -1.
--- > ml.nn.functional.soft_margin_loss(ml.tensor { 2.0, -1 }, ml.tensor { 1.0, -1 })
---   0.2201  Tensor () float32
---@param input the scores
---@param target 1 or -1 for each
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = log(1 + exp(-y_i x_i))
losses.soft_margin_loss = declare.op("soft_margin_loss" .. PAIR .. ")")
--- Cosine embedding loss of pairs of vectors. Similar pairs have the target 1, others -1.
--- > ml.nn.functional.cosine_embedding_loss(ml.tensor { { 1.0, 0 } }, ml.tensor { { 1.0, 1 } },
---   ml.tensor { 1.0 })
---   0.2929  Tensor () float32
---@param input1 the first vectors a
---@param input2 the second vectors b
---@param target 1 or -1 for each pair
---@param margin the cosine up to which dissimilar pairs cost nothing, from -1 to 1
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input1 (n, d), input2 (n, d), target (n) -> (), or (n) without reduction
---@formula loss = 1 - cos(a, b) if y = 1, max(0, cos(a, b) - margin) if y = -1
losses.cosine_embedding_loss = declare.op("cosine_embedding_loss(Tensor input1, Tensor input2, "
  .. "Tensor target, number margin=0" .. REDUCTION)
--- Triplet margin loss of an anchor, a positive and a negative vector. The positive should be
--- nearer to the anchor than the negative by `margin`.
--- > ml.nn.functional.triplet_margin_loss(ml.tensor { { 0.0, 0 } }, ml.tensor { { 0.0, 1 } },
---   ml.tensor { { 1.5, 0 } })
---   0.5000  Tensor () float32
---@param anchor the vectors to compare with
---@param positive vectors that should be near
---@param negative vectors that should be far
---@param margin by how much the distances should differ, above 0
---@param p the exponent of the distance's norm
---@param eps what is added to differences, so that the norm has a gradient
---@param swap whether the negative's distance is the smaller one of those to anchor and positive
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape anchor (n, d), positive (n, d), negative (n, d) -> (), or (n) without reduction
---@formula loss = max(0, d(a, p) - d(a, n) + margin)
---@formula d(x, y) = (sum_i |x_i - y_i + eps|^p)^(1/p)
---@source Balntas et al., 2016: Learning local feature descriptors with triplets and shallow
---   networks
losses.triplet_margin_loss = declare.op("triplet_margin_loss(Tensor anchor, Tensor positive, "
  .. "Tensor negative, number>0 margin=1.0, number p=2, number eps=1e-6, bool swap=false"
  .. REDUCTION)

local read_triplet = declare.reader("triplet_margin_with_distance_loss(Tensor anchor, "
  .. "Tensor positive, Tensor negative, function? distance_function=nil, number>0 margin=1.0, "
  .. "bool swap=false" .. REDUCTION)

--- Triplet margin loss with a distance of your own. The positive should be nearer to the anchor
--- than the negative by `margin`.
--- > ml.nn.functional.triplet_margin_with_distance_loss(ml.tensor { { 0.0, 0 } },
---   ml.tensor { { 0.0, 1 } }, ml.tensor { { 1.5, 0 } })
---   0.5000  Tensor () float32
---@param anchor the vectors to compare with
---@param positive vectors that should be near
---@param negative vectors that should be far
---@param distance_function what gives the distance of two tensors: `pairwise_distance` unless given
---@param margin by how much the distances should differ, above 0
---@param swap whether the negative's distance is the smaller one of those to anchor and positive
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@return Tensor
---@shape anchor (n, d), positive (n, d), negative (n, d) -> (), or (n) without reduction
---@formula loss = max(0, d(a, p) - d(a, n) + margin)
---@source Balntas et al., 2016: Learning local feature descriptors with triplets and shallow
---   networks
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

--- Multi-class margin (hinge) loss. The score of the target's class should exceed those of all
--- others by `margin`.
--- > ml.nn.functional.multi_margin_loss(ml.tensor { { 0.1, 0.2, 0.4 } }, ml.tensor { 3 })
---   0.5000  Tensor () float32
---@param input the scores
---@param target the classes, from 1
---@param p the exponent, 1 or 2
---@param margin by how much the scores should differ
---@param weight a factor for each class, (classes,): 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n) -> (), or (n) without reduction
---@formula loss = sum_{c != y} w_y max(0, margin - x_y + x_c)^p / classes
---@source Crammer and Singer, 2001: On the algorithmic implementation of multiclass kernel-based
---   vector machines
losses.multi_margin_loss = declare.op("multi_margin_loss(Tensor input, Tensor target, "
  .. "int>=1<=2 p=1, number margin=1.0, Tensor? weight=nil" .. REDUCTION)
--- Multi-label margin (hinge) loss. Each entry has several classes, from 1; an entry below 1 ends
--- the row of its labels.
--- > ml.nn.functional.multilabel_margin_loss(ml.tensor { { 0.1, 0.2, 0.4, 0.8 } },
---   ml.tensor { { 4, 1, 0, 0 } })
---   0.8500  Tensor () float32
---@param input the scores
---@param target the classes, from 1, in the shape of the input
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n, classes) -> (), or (n) without reduction
---@formula loss = sum_{y in labels} sum_{c not in labels} max(0, 1 - x_y + x_c) / classes
losses.multilabel_margin_loss = declare.op("multilabel_margin_loss" .. PAIR .. ")")
--- Multi-label loss: the mean over classes of the binary cross entropy of their scores.
--- > ml.nn.functional.multilabel_soft_margin_loss(ml.tensor { { 2.0, -1 } },
---   ml.tensor { { 1.0, 0 } })
---   0.2201  Tensor () float32
---@param input the scores
---@param target 1 for classes that apply, 0 for others
---@param weight a factor for each class, (classes,): 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n, classes) -> (), or (n) without reduction
---@formula loss = -sum_c w_c (y_c log(s_c) + (1 - y_c) log(1 - s_c)) / classes
---@formula s_c = 1 / (1 + exp(-x_c))
losses.multilabel_soft_margin_loss = declare.op("multilabel_soft_margin_loss(Tensor input, "
  .. "Tensor target, Tensor? weight=nil" .. REDUCTION)
--- Negative log likelihood of counts under Poisson distributions. With `log_input` the input is the
--- logarithm of the rate, else the rate itself.
--- > ml.nn.functional.poisson_nll_loss(ml.tensor { 0.0, 1 }, ml.tensor { 1.0, 3 })
---   0.3591  Tensor () float32
---@param input the rates, or their logarithms
---@param target the counts, in the same shape
---@param log_input whether the input is the logarithm of the rate
---@param full whether Stirling's approximation of log(y_i!) is added
---@param eps what is added to the rate before its logarithm is taken
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula log_input: loss_i = exp(x_i) - y_i x_i
---@formula otherwise: loss_i = x_i - y_i log(x_i + eps)
---@formula full, where y_i > 1: plus y_i log(y_i) - y_i + log(2 pi y_i) / 2
losses.poisson_nll_loss = declare.op("poisson_nll_loss(Tensor input, Tensor target, "
  .. "bool log_input=true, bool full=false, number eps=1e-8" .. REDUCTION)
--- Negative log likelihood of values under normal distributions. Called with the means, the values
--- and the variances; the variances have the input's shape, that without the last dimension, or
--- with size 1 there.
--- > ml.nn.functional.gaussian_nll_loss(ml.tensor { 0.0 }, ml.tensor { 1.0 }, ml.tensor { 2.0 })
---   0.5966  Tensor () float32
---@param input the means
---@param target the values, in the same shape
---@param var the variances, at least 0
---@param full whether the constant log(2 pi) / 2 is added
---@param eps the least variance, above 0; its gradient is not held back
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*), var (*) -> (), or (*) without reduction
---@formula loss_i = (log(v_i) + (x_i - y_i)^2 / v_i) / 2, v_i = max(var_i, eps)
---@formula full: plus log(2 pi) / 2
---@error a negative variance
---@source Nix and Weigend, 1994: Estimating the mean and variance of the target probability
---   distribution
losses.gaussian_nll_loss = declare.op("gaussian_nll_loss(Tensor input, Tensor target, "
  .. "Tensor|number var, bool full=false, number>0 eps=1e-6" .. REDUCTION)

return losses
