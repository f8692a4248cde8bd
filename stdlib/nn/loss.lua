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

--- The negative log likelihood of classes under the softmax of scores (n, classes, ...). The target
--- holds classes from 1, (n, ...), or probabilities in the scores' shape. `weight` has a factor for
--- each class; targets equal to `ignore_index` take no part.
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

--- Minus the log probability, of (n, classes, ...), of each target class.
layers.NLLLoss = define("NLLLoss", "nll_loss", "Tensor? weight=nil, int ignore_index=-100, "
  .. REDUCTION)
--- Minus the log probability, of (n, classes, h, w), of each target class: `NLLLoss` under its
--- older name.
layers.NLLLoss2d = define("NLLLoss2d", "nll_loss", "Tensor? weight=nil, int ignore_index=-100, "
  .. REDUCTION)
--- The squared difference.
layers.MSELoss = define("MSELoss", "mse_loss", REDUCTION)
--- The absolute difference.
layers.L1Loss = define("L1Loss", "l1_loss", REDUCTION)
--- `d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere.
layers.SmoothL1Loss = define("SmoothL1Loss", "smooth_l1_loss", REDUCTION .. ", number>=0 beta=1.0")
--- `d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere.
layers.HuberLoss = define("HuberLoss", "huber_loss", REDUCTION .. ", number>0 delta=1.0")
--- The cross entropy of probabilities, for targets from 0 to 1 in the same shape.
layers.BCELoss = define("BCELoss", "binary_cross_entropy", "Tensor? weight=nil" .. AND_REDUCTION)
--- BCELoss of the sigmoid of scores, without overflow. `pos_weight` multiplies the part of the
--- positive targets.
layers.BCEWithLogitsLoss = define("BCEWithLogitsLoss", "binary_cross_entropy_with_logits",
  "Tensor? weight=nil" .. AND_REDUCTION .. ", Tensor? pos_weight=nil")
--- The Kullback-Leibler divergence of log probabilities from the target's probabilities, or its
--- logarithms with `log_target`. The reduction "batchmean" divides the sum by the first size.
layers.KLDivLoss = define("KLDivLoss", "kl_div",
  'KLReduction reduction="mean", bool log_target=false')
--- The negative log likelihood of counts under Poisson distributions, whose logarithm of the mean
--- (without `log_input` the mean) is the input; `full` adds Stirling's term.
layers.PoissonNLLLoss = define("PoissonNLLLoss", "poisson_nll_loss",
  "bool log_input=true, bool full=false, number eps=1e-8" .. AND_REDUCTION)
--- The negative log likelihood of `target` under normal distributions: called with the means, the
--- target and the variances.
layers.GaussianNLLLoss = define("GaussianNLLLoss", "gaussian_nll_loss",
  "bool full=false, number>0 eps=1e-6" .. AND_REDUCTION, 3)
--- The loss of connectionist temporal classification (Graves et al., 2006): called with the log
--- probabilities (t, n, c), or (t, c), the targets, and the lengths of both. Classes count from 1;
--- `blank` is the one that is none.
layers.CTCLoss = define("CTCLoss", "ctc_loss", "int blank=1" .. AND_REDUCTION
  .. ", bool zero_infinity=false", 4)
--- `max(0, margin - target (input1 - input2))`.
layers.MarginRankingLoss = define("MarginRankingLoss", "margin_ranking_loss",
  "number margin=0.0" .. AND_REDUCTION, 3)
--- The input where the target is 1, `max(0, margin - input)` where it is -1.
layers.HingeEmbeddingLoss = define("HingeEmbeddingLoss", "hinge_embedding_loss",
  "number margin=1.0" .. AND_REDUCTION)
--- `log(1 + exp(-target input))`.
layers.SoftMarginLoss = define("SoftMarginLoss", "soft_margin_loss", REDUCTION)
--- One minus the cosine of the angle between the inputs where the target is 1, `max(0, cos -
--- margin)` where it is -1.
layers.CosineEmbeddingLoss = define("CosineEmbeddingLoss", "cosine_embedding_loss",
  "number margin=0.0" .. AND_REDUCTION, 3)
--- `max(0, d(anchor, positive) - d(anchor, negative) + margin)` with the distance of the `p`-norm;
--- with `swap` the smaller of the negative's distances to both (Balntas et al., 2016).
layers.TripletMarginLoss = define("TripletMarginLoss", "triplet_margin_loss",
  "number>0 margin=1.0, number p=2.0, number eps=1e-6, bool swap=false" .. AND_REDUCTION, 3)
--- `TripletMarginLoss` with a distance of your own, a function of two tensors.
layers.TripletMarginWithDistanceLoss = define("TripletMarginWithDistanceLoss",
  "triplet_margin_with_distance_loss",
  "function? distance_function=nil, number>0 margin=1.0, bool swap=false" .. AND_REDUCTION, 3)
--- The sum of `max(0, margin - input[target] + input[i])^p` over the other classes, divided by
--- their number. `weight` has a factor for each class.
layers.MultiMarginLoss = define("MultiMarginLoss", "multi_margin_loss",
  "int>=1<=2 p=1, number margin=1.0, Tensor? weight=nil" .. AND_REDUCTION)
--- The sum of `max(0, 1 - input[label] + input[i])` over labels and classes that are none, divided
--- by the number of classes. An entry below 1 ends a row of labels.
layers.MultiLabelMarginLoss = define("MultiLabelMarginLoss", "multilabel_margin_loss", REDUCTION)
--- The mean over classes of the binary cross entropy of logits.
layers.MultiLabelSoftMarginLoss = define("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss",
  "Tensor? weight=nil" .. AND_REDUCTION)

return layers
