-- stdlib/nn/loss.lua: losses as modules: each is the function of nn.functional of its snake_case
-- name; classes and positions in targets count from 1. Options that are tensors move with the
-- module.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

local REDUCTION = 'Reduction reduction="mean"'
local AND_REDUCTION = ", " .. REDUCTION

-- The class of losses that the function of that name computes of two tensors, or of `inputs`.
local function define(name, called, parameters, inputs)
  return (layer.functional(name, called, parameters, inputs or 2))
end

--- Cross entropy of classes under the softmax of scores. The scores (logits) need not be
--- normalised. The target holds classes, integers from 1, or, in the shape of the input, the
--- probability of each class. The mean is over the targets that are not `ignore_index`, weighted by
--- their class's `weight`.
--- > ml.nn.CrossEntropyLoss()(ml.tensor { { 2.0, 1, 0 } }, ml.tensor { 1 })
---   0.4076  Tensor () float32
---@param weight a factor for each class, (classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param label_smoothing which part of the target is spread evenly over all classes, from 0 to 1
---@shape input (n, classes, *), target (n, *) or (n, classes, *) -> (), or (n, *) without reduction
---@formula loss = -w_y (x_y - log(sum_c exp(x_c)))
---@formula probabilities: loss = -sum_c w_c p_c (x_c - log(sum_k exp(x_k)))
---@formula label smoothing: p_c = (1 - label_smoothing) [c = y] + label_smoothing / classes
---@error a class below 1 or above the number of classes that is not `ignore_index`
layers.CrossEntropyLoss = define("CrossEntropyLoss", "cross_entropy",
  "Tensor? weight=nil, int ignore_index=-100, " .. REDUCTION
  .. ", number>=0<=1 label_smoothing=0.0")
local general = layers.CrossEntropyLoss.forward

-- Most networks have this one, so it calls the op itself.
function layers.CrossEntropyLoss:forward(input, target, ...)
  if select("#", ...) > 0 then return general(self, input, target, ...) end
  return layer.run(self, ml.cross_entropy, input, target, self.weight, self.reduction,
    self.ignore_index, self.label_smoothing)
end

--- Negative log likelihood of classes. The input has logarithms of probabilities, as `LogSoftmax`
--- gives them; targets are integers from 1.
--- > ml.nn.NLLLoss()(ml.tensor { { 0.7, 0.3 } }:log(), ml.tensor { 1 })
---   0.3567  Tensor () float32
---@param weight a factor for each class, (classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param reduction "mean" "mean" of the losses, weighted by their class, their "sum", or "none"
---@shape input (n, classes, *), target (n, *) -> (), or (n, *) without reduction
---@formula loss = -w_y x_y
---@error a class below 1 or above the number of classes that is not `ignore_index`
layers.NLLLoss = define("NLLLoss", "nll_loss", "Tensor? weight=nil, int ignore_index=-100, "
  .. REDUCTION)
--- Negative log likelihood of classes at each pixel: the older name of `NLLLoss` for images.
--- > ml.nn.NLLLoss2d()(ml.zeros(1, 3, 2, 2), ml.ones(1, 2, 2):long())
---   0.  Tensor () float32
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@see nn.NLLLoss
---@param weight a factor for each class, (classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param reduction "mean" "mean" of the losses, weighted by their class, their "sum", or "none"
---@shape input (n, classes, h, w), target (n, h, w) -> (), or (n, h, w) without reduction
---@formula loss = -w_y x_y
---@see nn.NLLLoss
layers.NLLLoss2d = define("NLLLoss2d", "nll_loss", "Tensor? weight=nil, int ignore_index=-100, "
  .. REDUCTION)
--- Mean squared error.
--- > ml.nn.MSELoss()(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   1.6667  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = (x_i - y_i)^2
layers.MSELoss = define("MSELoss", "mse_loss", REDUCTION)
--- Mean absolute error.
--- > ml.nn.L1Loss()(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   1.  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = |x_i - y_i|
layers.L1Loss = define("L1Loss", "l1_loss", REDUCTION)
--- Smooth L1 loss: squared near 0, absolute further away.
--- > ml.nn.SmoothL1Loss()(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   0.6667  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param beta where the squared part ends; 0 gives `l1_loss`
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = d_i^2 / (2 beta) if |d_i| < beta, else |d_i| - beta / 2
---@formula d_i = x_i - y_i
---@source Girshick, 2015: Fast R-CNN
layers.SmoothL1Loss = define("SmoothL1Loss", "smooth_l1_loss", REDUCTION .. ", number>=0 beta=1.0")
--- Huber loss: squared near 0, absolute further away.
--- > ml.nn.HuberLoss()(ml.tensor { 1.0, 2, 5 }, ml.tensor { 1.0, 4, 4 })
---   0.6667  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param delta where the squared part ends, above 0
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = d_i^2 / 2 if |d_i| <= delta, else delta (|d_i| - delta / 2)
---@formula d_i = x_i - y_i
---@source Huber, 1964: Robust estimation of a location parameter
layers.HuberLoss = define("HuberLoss", "huber_loss", REDUCTION .. ", number>0 delta=1.0")
--- Binary cross entropy of probabilities. Inputs and targets are from 0 to 1. Logarithms count as
--- at least -100, so that the loss is finite. `BCEWithLogitsLoss` takes scores and is more exact.
--- > ml.nn.BCELoss()(ml.tensor { 0.9, 0.2 }, ml.tensor { 1.0, 0 })
---   0.1643  Tensor () float32
---@param weight a factor for each element, broadcast to the input's shape: 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = -w_i (y_i log(x_i) + (1 - y_i) log(1 - x_i))
---@error an input outside of the range from 0 to 1
layers.BCELoss = define("BCELoss", "binary_cross_entropy", "Tensor? weight=nil" .. AND_REDUCTION)
--- Binary cross entropy of scores: `BCELoss` of their sigmoid, without overflow. Targets are from 0
--- to 1.
--- > ml.nn.BCEWithLogitsLoss()(ml.tensor { 2.0, -1 }, ml.tensor { 1.0, 0 })
---   0.2201  Tensor () float32
---@param weight a factor for each element, broadcast to the input's shape: 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param pos_weight p, the factor of the part of positive targets, broadcast: 1 unless given
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = -w_i (p y_i log(s_i) + (1 - y_i) log(1 - s_i))
---@formula s_i = 1 / (1 + exp(-x_i))
layers.BCEWithLogitsLoss = define("BCEWithLogitsLoss", "binary_cross_entropy_with_logits",
  "Tensor? weight=nil" .. AND_REDUCTION .. ", Tensor? pos_weight=nil")
--- Kullback-Leibler divergence of the target's distribution from the input's. The input has
--- logarithms of probabilities. The reduction "batchmean" divides the sum by the first size, which
--- is the divergence by its definition; "mean" divides by the number of elements.
--- > ml.nn.KLDivLoss{ reduction = "batchmean" }(ml.tensor { { 0.5, 0.5 } }:log(),
---   ml.tensor { { 0.9, 0.1 } })
---   0.3681  Tensor () float32
---@param reduction "mean" "mean" over elements, "batchmean", "sum", or "none" for each of them
---@param log_target whether the target has logarithms of probabilities, too
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = y_i (log(y_i) - x_i)
---@formula log_target: loss_i = exp(y_i) (y_i - x_i)
---@source Kullback and Leibler, 1951: On information and sufficiency
layers.KLDivLoss = define("KLDivLoss", "kl_div",
  'KLReduction reduction="mean", bool log_target=false')
--- Negative log likelihood of counts under Poisson distributions. With `log_input` the input is the
--- logarithm of the rate, else the rate itself.
--- > ml.nn.PoissonNLLLoss()(ml.tensor { 0.0, 1 }, ml.tensor { 1.0, 3 })
---   0.3591  Tensor () float32
---@param log_input whether the input is the logarithm of the rate
---@param full whether Stirling's approximation of log(y_i!) is added
---@param eps what is added to the rate before its logarithm is taken
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula log_input: loss_i = exp(x_i) - y_i x_i
---@formula otherwise: loss_i = x_i - y_i log(x_i + eps)
---@formula full, where y_i > 1: plus y_i log(y_i) - y_i + log(2 pi y_i) / 2
layers.PoissonNLLLoss = define("PoissonNLLLoss", "poisson_nll_loss",
  "bool log_input=true, bool full=false, number eps=1e-8" .. AND_REDUCTION)
--- Negative log likelihood of values under normal distributions. Called with the means, the values
--- and the variances; the variances have the input's shape, that without the last dimension, or
--- with size 1 there.
--- > ml.nn.GaussianNLLLoss()(ml.tensor { 0.0 }, ml.tensor { 1.0 }, ml.tensor { 2.0 })
---   0.5966  Tensor () float32
---@param full whether the constant log(2 pi) / 2 is added
---@param eps the least variance, above 0; its gradient is not held back
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*), var (*) -> (), or (*) without reduction
---@formula loss_i = (log(v_i) + (x_i - y_i)^2 / v_i) / 2, v_i = max(var_i, eps)
---@formula full: plus log(2 pi) / 2
---@error a negative variance
---@source Nix and Weigend, 1994: Estimating the mean and variance of the target probability
---   distribution
layers.GaussianNLLLoss = define("GaussianNLLLoss", "gaussian_nll_loss",
  "bool full=false, number>0 eps=1e-6" .. AND_REDUCTION, 3)
--- Connectionist temporal classification (CTC) loss of sequences without alignment. The negative
--- log likelihood of a target sequence, summed over all ways to stretch it over the steps with
--- repetitions and blanks. Classes count from 1. Targets are a row for each entry, or those of all
--- entries one after the other. The mean divides each loss by its target's length first.
--- > ml.nn.CTCLoss()(ml.zeros(4, 1, 3):log_softmax(3), ml.tensor { { 2, 3 } }, ml.tensor { 4 },
---   ml.tensor { 2 })
---   0.8432  Tensor () float32
---@param blank the class that stands for none, from 1
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param zero_infinity whether infinite losses, of targets too long for their input, count as 0,
---   with their gradients
---@shape log_probs (t, n, c), targets (n, s) or (sum of target_lengths), lengths (n) -> (), or (n)
---   without reduction
---@formula loss = -log(sum over paths pi that collapse to y of prod_t p_t(pi_t))
---@source Graves et al., 2006: Connectionist temporal classification
layers.CTCLoss = define("CTCLoss", "ctc_loss", "int blank=1" .. AND_REDUCTION
  .. ", bool zero_infinity=false", 4)
--- Margin ranking loss of pairs of scores. A target of 1 says that the first should be higher, -1
--- the second.
--- > ml.nn.MarginRankingLoss()(ml.tensor { 1.0, 2 }, ml.tensor { 3.0, 1 }, ml.tensor { 1.0, 1 })
---   1.  Tensor () float32
---@param margin by how much the scores should differ
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input1 (*), input2 (*), target (*) -> (), or (*) without reduction
---@formula loss_i = max(0, margin - y_i (a_i - b_i))
layers.MarginRankingLoss = define("MarginRankingLoss", "margin_ranking_loss",
  "number margin=0.0" .. AND_REDUCTION, 3)
--- Hinge embedding loss of distances. Distances of similar pairs, whose target is 1, should be
--- small, those of others, with target -1, at least `margin`.
--- > ml.nn.HingeEmbeddingLoss()(ml.tensor { 0.5, 0.2 }, ml.tensor { 1.0, -1 })
---   0.6500  Tensor () float32
---@param margin the distance from which dissimilar pairs cost nothing
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = x_i if y_i = 1, max(0, margin - x_i) if y_i = -1
layers.HingeEmbeddingLoss = define("HingeEmbeddingLoss", "hinge_embedding_loss",
  "number margin=1.0" .. AND_REDUCTION)
--- Logistic loss of scores of two classes. Targets are 1 or -1.
--- > ml.nn.SoftMarginLoss()(ml.tensor { 2.0, -1 }, ml.tensor { 1.0, -1 })
---   0.2201  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (*), target (*) -> (), or (*) without reduction
---@formula loss_i = log(1 + exp(-y_i x_i))
layers.SoftMarginLoss = define("SoftMarginLoss", "soft_margin_loss", REDUCTION)
--- Cosine embedding loss of pairs of vectors. Similar pairs have the target 1, others -1.
--- > ml.nn.CosineEmbeddingLoss()(ml.tensor { { 1.0, 0 } }, ml.tensor { { 1.0, 1 } },
---   ml.tensor { 1.0 })
---   0.2929  Tensor () float32
---@param margin the cosine up to which dissimilar pairs cost nothing, from -1 to 1
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input1 (n, d), input2 (n, d), target (n) -> (), or (n) without reduction
---@formula loss = 1 - cos(a, b) if y = 1, max(0, cos(a, b) - margin) if y = -1
layers.CosineEmbeddingLoss = define("CosineEmbeddingLoss", "cosine_embedding_loss",
  "number margin=0.0" .. AND_REDUCTION, 3)
--- Triplet margin loss of an anchor, a positive and a negative vector. The positive should be
--- nearer to the anchor than the negative by `margin`.
--- > ml.nn.TripletMarginLoss()(ml.tensor { { 0.0, 0 } }, ml.tensor { { 0.0, 1 } },
---   ml.tensor { { 1.5, 0 } })
---   0.5000  Tensor () float32
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
layers.TripletMarginLoss = define("TripletMarginLoss", "triplet_margin_loss",
  "number>0 margin=1.0, number p=2.0, number eps=1e-6, bool swap=false" .. AND_REDUCTION, 3)
--- Triplet margin loss with a distance of your own. The positive should be nearer to the anchor
--- than the negative by `margin`.
--- > ml.nn.TripletMarginWithDistanceLoss()(ml.tensor { { 0.0, 0 } }, ml.tensor { { 0.0, 1 } },
---   ml.tensor { { 1.5, 0 } })
---   0.5000  Tensor () float32
---@param distance_function what gives the distance of two tensors: `pairwise_distance` unless given
---@param margin by how much the distances should differ, above 0
---@param swap whether the negative's distance is the smaller one of those to anchor and positive
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape anchor (n, d), positive (n, d), negative (n, d) -> (), or (n) without reduction
---@formula loss = max(0, d(a, p) - d(a, n) + margin)
---@source Balntas et al., 2016: Learning local feature descriptors with triplets and shallow
---   networks
layers.TripletMarginWithDistanceLoss = define("TripletMarginWithDistanceLoss",
  "triplet_margin_with_distance_loss",
  "function? distance_function=nil, number>0 margin=1.0, bool swap=false" .. AND_REDUCTION, 3)
--- Multi-class margin (hinge) loss. The score of the target's class should exceed those of all
--- others by `margin`.
--- > ml.nn.MultiMarginLoss()(ml.tensor { { 0.1, 0.2, 0.4 } }, ml.tensor { 3 })
---   0.5000  Tensor () float32
---@param p the exponent, 1 or 2
---@param margin by how much the scores should differ
---@param weight a factor for each class, (classes,): 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n) -> (), or (n) without reduction
---@formula loss = sum_{c != y} w_y max(0, margin - x_y + x_c)^p / classes
---@source Crammer and Singer, 2001: On the algorithmic implementation of multiclass kernel-based
---   vector machines
layers.MultiMarginLoss = define("MultiMarginLoss", "multi_margin_loss",
  "int>=1<=2 p=1, number margin=1.0, Tensor? weight=nil" .. AND_REDUCTION)
--- Multi-label margin (hinge) loss. Each entry has several classes, from 1; an entry below 1 ends
--- the row of its labels.
--- > ml.nn.MultiLabelMarginLoss()(ml.tensor { { 0.1, 0.2, 0.4, 0.8 } },
---   ml.tensor { { 4, 1, 0, 0 } })
---   0.8500  Tensor () float32
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n, classes) -> (), or (n) without reduction
---@formula loss = sum_{y in labels} sum_{c not in labels} max(0, 1 - x_y + x_c) / classes
layers.MultiLabelMarginLoss = define("MultiLabelMarginLoss", "multilabel_margin_loss", REDUCTION)
--- Multi-label loss: the mean over classes of the binary cross entropy of their scores.
--- > ml.nn.MultiLabelSoftMarginLoss()(ml.tensor { { 2.0, -1 } }, ml.tensor { { 1.0, 0 } })
---   0.2201  Tensor () float32
---@param weight a factor for each class, (classes,): 1 unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@shape input (n, classes), target (n, classes) -> (), or (n) without reduction
---@formula loss = -sum_c w_c (y_c log(s_c) + (1 - y_c) log(1 - s_c)) / classes
---@formula s_c = 1 / (1 + exp(-x_c))
layers.MultiLabelSoftMarginLoss = define("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss",
  "Tensor? weight=nil" .. AND_REDUCTION)

return layers
