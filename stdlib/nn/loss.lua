-- stdlib/nn/loss.lua: losses as modules: each is the op of its snake_case name; classes and
-- positions in targets count from 1.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

local REDUCTION = 'Reduction reduction="mean"'

-- The class of losses that `call(self, input, target)` computes. The options that are tensors move
-- with the module.
local function define(name, parameters, call)
  local cls, read
  cls, read = layer.define(name, parameters, function(self, o)
    for _, parameter in ipairs(read.parameters) do
      local field = parameter.name
      if parameter.type == "Tensor?" then
        self:register_buffer(field, o[field])
      else
        self[field] = o[field]
      end
    end
  end)
  function cls:forward(input, target) return layer.run(self, call, self, input, target) end
  function cls:extra_repr()
    return self.reduction == "mean" and "" or self.reduction
  end
  return cls
end

--- The negative log likelihood of classes under the softmax of scores (n, classes, ...). The target
--- holds classes from 1, (n, ...), or probabilities in the scores' shape. `weight` has a factor for
--- each class; targets equal to `ignore_index` take no part.
layers.CrossEntropyLoss = define("CrossEntropyLoss", "Tensor? weight=nil, int ignore_index=-100, "
  .. REDUCTION .. ", number>=0<=1 label_smoothing=0.0", function(self, input, target)
    return ml.cross_entropy(input, target, self.weight, self.reduction, self.ignore_index,
      self.label_smoothing)
  end)

--- Minus the log probability, of (n, classes, ...), of each target class.
layers.NLLLoss = define("NLLLoss", "Tensor? weight=nil, int ignore_index=-100, " .. REDUCTION,
  function(self, input, target)
    return ml.nll_loss(input, target, self.weight, self.reduction, self.ignore_index)
  end)

--- The squared difference.
layers.MSELoss = define("MSELoss", REDUCTION, function(self, input, target)
  return ml.mse_loss(input, target, self.reduction)
end)

--- The absolute difference.
layers.L1Loss = define("L1Loss", REDUCTION, function(self, input, target)
  return ml.l1_loss(input, target, self.reduction)
end)

--- `d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere.
layers.SmoothL1Loss = define("SmoothL1Loss", REDUCTION .. ", number>=0 beta=1.0",
  function(self, input, target)
    return ml.smooth_l1_loss(input, target, self.reduction, self.beta)
  end)

--- `d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere.
layers.HuberLoss = define("HuberLoss", REDUCTION .. ", number>0 delta=1.0",
  function(self, input, target)
    return ml.huber_loss(input, target, self.reduction, self.delta)
  end)

--- The cross entropy of probabilities, for targets from 0 to 1 in the same shape.
layers.BCELoss = define("BCELoss", "Tensor? weight=nil, " .. REDUCTION,
  function(self, input, target)
    return ml.binary_cross_entropy(input, target, self.weight, self.reduction)
  end)

--- BCELoss of the sigmoid of scores, without overflow. `pos_weight` multiplies the part of the
--- positive targets.
layers.BCEWithLogitsLoss = define("BCEWithLogitsLoss", "Tensor? weight=nil, " .. REDUCTION
  .. ", Tensor? pos_weight=nil", function(self, input, target)
    return ml.binary_cross_entropy_with_logits(input, target, self.weight, self.pos_weight,
      self.reduction)
  end)

--- The Kullback-Leibler divergence of log probabilities from the target's probabilities, or its
--- logarithms with `log_target`. The reduction "batchmean" divides the sum by the first size.
layers.KLDivLoss = define("KLDivLoss", 'KLReduction reduction="mean", bool log_target=false',
  function(self, input, target)
    return ml.kl_div(input, target, self.reduction, self.log_target)
  end)

return layers
